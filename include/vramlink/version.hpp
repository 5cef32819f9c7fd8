// The three numbers of docs/wire_format.md: they are never mixed.
#ifndef VRAMLINK_VERSION_HPP
#define VRAMLINK_VERSION_HPP

#include <cstdint>

#include <vramlink/export.hpp>

#define VRAMLINK_VERSION_MAJOR 0
#define VRAMLINK_VERSION_MINOR 1
#define VRAMLINK_VERSION_PATCH 0

namespace vramlink::inline v0 {

/// What two processes must agree on before they share memory; a mismatch is refused.
inline constexpr std::uint32_t kWireVersion = 1;

/// The version of the library that is loaded, "major.minor.patch"; static text.
[[nodiscard]] VRAMLINK_API const char* version_string() noexcept;

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_VERSION_HPP
