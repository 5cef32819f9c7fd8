// base: parsing of VRAMLINK_LOG and formatting of lines.
#include "base/log_settings.hpp"

#include <array>
#include <cstdio>
#include <ctime>

#include "base/hex.hpp"

namespace vramlink::base {
namespace {

constexpr std::array<std::string_view, 5> kLevelNames = {"off", "warn", "info", "debug", "trace"};

// Length of the valid UTF-8 sequence at the front, or 0. Surrogates and overlong forms are not
// valid.
std::size_t utf8_length(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) >= 0xa0) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
}

// Control characters would break the line or steer a terminal; text may come from a peer.
void append_escaped(std::string& line, std::string_view text, bool json) {
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    if (json && (first == '"' || first == '\\')) {
      line += '\\';
      line += text.front();
    } else if (length == 0) {
      line += json ? "\\ufffd" : "?";
    } else if (first < 0x20 || first == 0x7f) {
      line += json ? "\\u00" : "\\x";
      append_hex(line, first);
    } else {
      line += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
}

std::string wall_text(std::int64_t wall_ns) {
  const std::time_t seconds = wall_ns / 1'000'000'000;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::array<char, 48> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text.data() + size, text.size() - size, ".%06dZ",
                static_cast<int>(wall_ns % 1'000'000'000 / 1'000));
  return text.data();
}

void read_part(LogSettings& settings, std::string_view part) {
  constexpr std::string_view kFile = "file=";
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (part == kLevelNames[i]) {
      settings.level = static_cast<LogLevel>(i);
      return;
    }
  }
  if (part == "json") {
    settings.json = true;
  } else if (part.substr(0, kFile.size()) == kFile && part.size() > kFile.size()) {
    settings.file = part.substr(kFile.size());
  } else if (!part.empty()) {
    if (!settings.mistakes.empty()) settings.mistakes += ',';
    settings.mistakes += part;
  }
}

}  // namespace

std::string_view name(LogLevel level) noexcept {
  const auto index = static_cast<std::size_t>(level);
  return index < kLevelNames.size() ? kLevelNames[index] : "unknown";
}

LogSettings parse_log_settings(std::string_view text) {
  LogSettings settings;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    read_part(settings, text.substr(0, comma));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return settings;
}

std::string text_line(const LogLine& line) {
  std::array<char, 64> monotonic{};
  std::snprintf(monotonic.data(), monotonic.size(), "%lld.%06lld",
                static_cast<long long>(line.monotonic_ns / 1'000'000'000),
                static_cast<long long>(line.monotonic_ns % 1'000'000'000 / 1'000));
  std::string text = wall_text(line.wall_ns);
  text.append(" ").append(monotonic.data()).append(" vramlink[");
  text.append(std::to_string(line.pid)).append("] ").append(name(line.level)).append(" ");
  return text.append(sink_line(line.subject, line.text));
}

std::string json_line(const LogLine& line) {
  std::string text = "{\"time\":\"" + wall_text(line.wall_ns) + "\",\"monotonic_ns\":";
  text.append(std::to_string(line.monotonic_ns)).append(",\"pid\":");
  text.append(std::to_string(line.pid)).append(",\"level\":\"").append(name(line.level));
  text.append("\",\"subject\":\"");
  append_escaped(text, line.subject, true);
  text.append("\",\"text\":\"");
  append_escaped(text, line.text, true);
  return text.append("\"}");
}

std::string sink_line(std::string_view subject, std::string_view text) {
  std::string line;
  line.reserve(subject.size() + 2 + text.size());
  append_escaped(line, subject, false);
  if (!subject.empty()) line += ": ";
  append_escaped(line, text, false);
  return line;
}

}  // namespace vramlink::base
