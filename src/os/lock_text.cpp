// os: the text of a lock file.
#include "os/lock_text.hpp"

#include <algorithm>
#include <cstdint>

#include "base/hex.hpp"
#include "os/parse.hpp"

namespace vramlink::os {
namespace {

constexpr std::string_view kFirstLine = "vramlink lock 1";

bool is_valid_name(std::string_view name) noexcept {
  const auto is_control = [](char character) {
    return static_cast<unsigned char>(character) < ' ' || character == '\x7f';
  };
  return !name.empty() && name.size() <= kLockNameMaxBytes &&
         std::none_of(name.begin(), name.end(), is_control);
}

std::string to_hex(const std::array<std::uint8_t, 16>& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) base::append_hex(text, byte);
  return text;
}

bool parse_hex(std::string_view text, std::array<std::uint8_t, 16>& bytes) noexcept {
  if (text.size() != 2 * bytes.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int digit = base::hex_digit(text[i]);
    if (digit < 0) return false;
    bytes[i / 2] = static_cast<std::uint8_t>(bytes[i / 2] * 16 + digit);
  }
  return true;
}

template <class Number>
bool read_number(std::string_view text, Number& number) noexcept {
  const auto parsed = parse_number<Number>(text);
  if (parsed) number = *parsed;
  return parsed.has_value();
}

/// Takes the line "<key>=<value>" from `text` and returns the value.
std::optional<std::string_view> next_value(std::string_view& text, std::string_view key) noexcept {
  const auto end = text.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  const bool has_key =
      line.size() > key.size() && line.substr(0, key.size()) == key && line[key.size()] == '=';
  if (!has_key) return std::nullopt;
  return line.substr(key.size() + 1);
}

}  // namespace

Result<std::string> format_lock_text(const LockFile::Owner& owner) {
  if (!is_valid_name(owner.name)) {
    return Error(Code::invalid_argument, "lock name")
        .because("a name has 1 to 255 printable bytes")
        .numbers(owner.name.size(), kLockNameMaxBytes);
  }
  const ProcessIdentity& identity = owner.identity;
  return std::string(kFirstLine) + "\nname=" + owner.name + "\nboot=" + to_hex(identity.boot_id) +
         "\npidns=" + std::to_string(identity.pid_namespace) +
         "\npid=" + std::to_string(identity.pid) +
         "\nstart=" + std::to_string(identity.start_time_ticks) + "\n";
}

std::optional<LockFile::Owner> parse_lock_text(std::string_view text) {
  const std::string first = std::string(kFirstLine) + "\n";
  if (text.size() > kLockTextMaxBytes || text.substr(0, first.size()) != first) return std::nullopt;
  text.remove_prefix(first.size());
  LockFile::Owner owner;
  ProcessIdentity& identity = owner.identity;
  const auto name = next_value(text, "name");
  const auto boot = next_value(text, "boot");
  const auto pid_namespace = next_value(text, "pidns");
  const auto pid = next_value(text, "pid");
  const auto start = next_value(text, "start");
  const bool is_good = name && is_valid_name(*name) && boot && parse_hex(*boot, identity.boot_id) &&
                       pid_namespace && read_number(*pid_namespace, identity.pid_namespace) &&
                       pid && read_number(*pid, identity.pid) && identity.pid > 0 && start &&
                       read_number(*start, identity.start_time_ticks) && text.empty();
  if (!is_good) return std::nullopt;
  owner.name = *name;
  return owner;
}

}  // namespace vramlink::os
