// cli: vramlink version.
#include <string>

#include <vramlink/version.hpp>

#include "commands.hpp"
#include "json.hpp"
#include "talk.hpp"

namespace vramlink::cli {

int run(const VersionOptions& options) {
  if (options.json) {
    JsonObject object("vramlink.version/1");
    object.set("version", version_string()).set("wire_version", kWireVersion);
    return print_and_finish(object.line());
  }
  return print_and_finish(std::string("vramlink ") + version_string() + " (wire version " +
                          std::to_string(kWireVersion) + ")\n");
}

}  // namespace vramlink::cli
