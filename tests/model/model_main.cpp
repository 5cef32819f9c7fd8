// Explores every configuration of the channel models and says whether each came out as it must.
//
//   channel_model [--small] [--only SUBSTRING] [--list] [--trace]
//
// As specified: no violation may be found. With one rule left out: a violation must be found, else
// the models would not notice if the library lost that rule. --small runs the small configurations,
// among them one for every rule.
// --trace prints the shortest way to every violation; for an unexpected one it is always printed.
#include <chrono>
#include <cstring>

#include "suite.hpp"

namespace vramlink::model {
namespace {

struct Arguments {
  bool small = false;
  bool list = false;
  bool trace = false;
  std::string only;
};

bool parse(int count, char** values, Arguments& arguments) {
  for (int index = 1; index < count; ++index) {
    const std::string value = values[index];
    if (value == "--small") {
      arguments.small = true;
    } else if (value == "--list") {
      arguments.list = true;
    } else if (value == "--trace") {
      arguments.trace = true;
    } else if (value == "--only" && index + 1 < count) {
      arguments.only = values[++index];
    } else {
      return false;
    }
  }
  return true;
}

std::string full_name(const Suite& suite, const Case& one) {
  return std::string(suite.name) + (one.left_out ? ": without: " : ": ") + one.name;
}

// Every rule of the enum has a text, and a small case that leaves it out.
bool covers_every_rule(const Suite& suite) {
  bool good = true;
  for (int rule = 1; rule < suite.rule_count; ++rule) {
    bool described = false;
    bool left_out = false;
    for (const RuleText& text : suite.rules) described |= text.rule == rule;
    for (const Case& one : suite.cases)
      left_out |= one.left_out == rule && one.size == Size::kSmall;
    if (described && left_out) continue;
    std::printf("%s: rule %d has no %s\n", suite.name, rule, described ? "small case" : "text");
    good = false;
  }
  return good;
}

void print_trace(const Case& one, std::size_t state_limit) {
  const Outcome shortest = one.run(Order::kBreadthFirst, state_limit);
  int number = 0;
  for (const std::string& step : shortest.trace)
    std::printf("    %3d  %s\n", ++number, step.c_str());
  std::printf("         %s\n", shortest.violation.c_str());
}

bool run(const Suite& suite, const Case& one, bool trace) {
  constexpr std::size_t kStateLimit = 150'000'000;
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = one.run(Order::kDepthFirst, kStateLimit);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const bool violated = !outcome.violation.empty();
  const bool expected = violated == (one.left_out != 0) && outcome.complete;
  std::string verdict =
      violated ? (one.left_out ? "caught: " : "") + outcome.violation : "no violation";
  if (!outcome.complete) verdict = "not complete: too many states";
  std::printf("%-72s %10llu states %6.1f s  %s%s\n", full_name(suite, one).c_str(),
              static_cast<unsigned long long>(outcome.state_count), elapsed.count(),
              verdict.c_str(), expected ? "" : "   <-- UNEXPECTED");
  std::fflush(stdout);
  if (violated && (trace || !expected)) print_trace(one, kStateLimit);
  return expected;
}

int run_all(const Arguments& arguments) {
  bool good = true;
  int ran = 0;
  for (const Suite& suite : {wake_suite(), queue_suite(), hazard_suite()}) {
    good &= covers_every_rule(suite);
    for (const Case& one : suite.cases) {
      const std::string name = full_name(suite, one);
      if (arguments.small && one.size == Size::kFull) continue;
      if (name.find(arguments.only) == std::string::npos) continue;
      ++ran;
      if (arguments.list) {
        std::printf("%s\n", name.c_str());
      } else {
        good &= run(suite, one, arguments.trace);
      }
    }
  }
  if (ran == 0) std::printf("no configuration has such a name\n");
  if (!arguments.list)
    std::printf("%d configurations: %s\n", ran, good ? "all as expected" : "NOT AS EXPECTED");
  return good && ran != 0 ? 0 : 1;
}

}  // namespace
}  // namespace vramlink::model

int main(int argc, char** argv) {
  vramlink::model::Arguments arguments;
  if (!vramlink::model::parse(argc, argv, arguments)) {
    std::fprintf(stderr, "usage: %s [--small] [--only SUBSTRING] [--list] [--trace]\n", argv[0]);
    return 2;
  }
  return vramlink::model::run_all(arguments);
}
