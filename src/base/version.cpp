// base: the version of the loaded library, which may differ from the headers'.
#include <vramlink/version.hpp>

#define VRAMLINK_TEXT_OF(value) #value
#define VRAMLINK_TEXT(value) VRAMLINK_TEXT_OF(value)

namespace vramlink::inline v0 {

const char* version_string() noexcept {
  return VRAMLINK_TEXT(VRAMLINK_VERSION_MAJOR) "." VRAMLINK_TEXT(
      VRAMLINK_VERSION_MINOR) "." VRAMLINK_TEXT(VRAMLINK_VERSION_PATCH);
}

}  // namespace vramlink::inline v0
