// cli: writing to people.
#include "talk.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "exit_status.hpp"

namespace vramlink::cli {
namespace {

ColorChoice color_choice = ColorChoice::automatic;

bool is_set(const char* variable) noexcept {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool write_all(int fd, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

void set_color_choice(ColorChoice choice) noexcept { color_choice = choice; }

bool can_redraw(int fd) noexcept {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) != 0 && term != nullptr && std::strcmp(term, "dumb") != 0;
}

bool color_allowed(int fd) noexcept {
  if (color_choice != ColorChoice::automatic) return color_choice == ColorChoice::always;
  if (is_set("NO_COLOR")) return false;
  return is_set("CLICOLOR_FORCE") || can_redraw(fd);
}

std::string bold(std::string_view text, int fd) {
  if (!color_allowed(fd)) return std::string(text);
  return "\x1b[1m" + std::string(text) + "\x1b[0m";
}

std::string colored(std::string_view text, Color color, int fd) {
  constexpr std::array<const char*, 4> kStart{"", "\x1b[31m", "\x1b[32m", "\x1b[33m"};
  if (color == Color::none || !color_allowed(fd)) return std::string(text);
  return kStart[static_cast<std::size_t>(color)] + std::string(text) + "\x1b[0m";
}

void say(std::string_view line) {
  std::string text("vramlink: ");
  // Names and words of files and peers are in it, and none of them is to steer a terminal.
  for (const char character : line) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte < 0x20 || byte == 0x7f) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      text.append("\\x").append(1, kDigits[byte >> 4]).append(1, kDigits[byte & 15]);
    } else {
      text.append(1, character);
    }
  }
  text.append("\n");
  // There is nobody to tell when this fails.
  static_cast<void>(write_all(STDERR_FILENO, text));
}

int fail(const Error& error) {
  if (error.origin() == Origin::os && error.native() == EPIPE) return kBrokenPipe;
  say(to_string(error));
  return exit_code(error.code());
}

std::string remedy_of(const Error& error) {
  const ErrorFacts* const facts = error.facts();
  return facts ? facts->remedy : std::string();
}

std::string text_without_remedy(const Error& error) {
  std::string text = to_string(error);
  const std::string tail = ". Try: " + remedy_of(error);
  if (text.ends_with(tail)) text.resize(text.size() - tail.size());
  return text;
}

bool print(std::string_view text) { return write_all(STDOUT_FILENO, text); }

int print_and_finish(std::string_view text) {
  if (print(text)) return kSuccess;
  return fail(Error(Code::os, "write").about("standard output").from(Origin::os, errno));
}

std::string fixed(double value, int digits) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fixed(value, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string duration_text(std::int64_t ns) {
  if (ns < 0) return "unknown";
  if (ns < 1'000'000) return fixed(static_cast<double>(ns) / 1e3, ns < 10'000 ? 1 : 0) + " us";
  if (ns < 1'000'000'000) return fixed(static_cast<double>(ns) / 1e6, 1) + " ms";
  return fixed(static_cast<double>(ns) / 1e9, 1) + " s";
}

}  // namespace vramlink::cli
