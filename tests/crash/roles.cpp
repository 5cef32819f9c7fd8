#include "roles.hpp"

#include <map>

#include "victims.hpp"

namespace vramlink::test {

int run_role(const std::string& role, const std::vector<std::string>& arguments,
             const ChildLink& link) {
  const Orders orders = Orders::parse(arguments);
  using Role = int (*)(const Orders&, const ChildLink&);
  static const std::map<std::string, Role> kRoles{
      {"publisher", run_publisher},
      {"orderly_publisher", run_orderly_publisher},
      {"forking_publisher", run_forking_publisher},
      {"sleeping_publisher", run_sleeping_publisher},
      {"waiting_publisher", run_waiting_publisher},
      {"opening_publisher", run_opening_publisher},
      {"subscriber", run_subscriber},
  };
  end_child(kRoles.at(role)(orders, link));
}

}  // namespace vramlink::test
