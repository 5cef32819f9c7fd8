// base: device identities as text.
#include <vramlink/device.hpp>
#include <vramlink/statistics.hpp>

#include "base/hex.hpp"

namespace vramlink::inline v0 {
namespace {

constexpr std::string_view kPrefix = "GPU-";
constexpr std::size_t kTextSize = kPrefix.size() + 36;

// A hyphen stands before the bytes 4, 6, 8 and 10.
constexpr bool hyphen_before(std::size_t byte) noexcept {
  return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

Error not_a_device(std::string_view text) {
  return Error(Code::invalid_argument, "parse device")
      .about(text)
      .because("neither \"host\" nor \"GPU-\" and a UUID")
      .remedy("copy the name that `vramlink doctor` prints");
}

}  // namespace

std::string to_string(const DeviceId& device) {
  if (device.is_host()) return "host";
  std::string text(kPrefix);
  for (std::size_t i = 0; i < device.uuid.size(); ++i) {
    if (hyphen_before(i)) text += '-';
    base::append_hex(text, device.uuid[i]);
  }
  return text;
}

Result<DeviceId> parse_device(std::string_view text) {
  if (text == "host") return DeviceId::host();
  if (text.size() != kTextSize || text.substr(0, kPrefix.size()) != kPrefix) {
    return not_a_device(text);
  }
  DeviceId device;
  std::size_t at = kPrefix.size();
  for (std::size_t i = 0; i < device.uuid.size(); ++i) {
    if (hyphen_before(i) && text[at++] != '-') return not_a_device(text);
    const int high = base::hex_digit(text[at++]);
    const int low = base::hex_digit(text[at++]);
    if (high < 0 || low < 0) return not_a_device(text);
    device.uuid[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  if (device.is_host()) return not_a_device(text);
  return device;
}

const char* to_string(MemoryPath path) noexcept {
  switch (path) {
    case MemoryPath::shared_memory:
      return "shared_memory";
    case MemoryPath::descriptor:
      return "descriptor";
    case MemoryPath::legacy_handle:
      return "legacy_handle";
  }
  return "unknown";
}

}  // namespace vramlink::inline v0
