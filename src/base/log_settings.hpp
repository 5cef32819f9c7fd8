// What VRAMLINK_LOG says, and how a line looks. Apart from log.cpp, so that tests reach them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <vramlink/log.hpp>

namespace vramlink::base {

struct LogSettings {
  LogLevel level = LogLevel::warn;
  bool json = false;
  std::string file;      ///< empty: stderr
  std::string mistakes;  ///< parts that were not understood; empty: none
};

/// `level[,file=PATH][,json]` in any order; a part that is not understood is reported, not fatal.
[[nodiscard]] LogSettings parse_log_settings(std::string_view text);

struct LogLine {
  LogLevel level;
  std::int64_t wall_ns;  ///< since 1970, UTC
  std::int64_t monotonic_ns;
  std::int32_t pid;
  std::string_view subject;
  std::string_view text;
};

[[nodiscard]] std::string_view name(LogLevel level) noexcept;
/// For people, or one JSON object; without a newline, whatever the text holds.
[[nodiscard]] std::string text_line(const LogLine& line);
[[nodiscard]] std::string json_line(const LogLine& line);
/// "subject: text", for a program's own sink, which adds its own time.
[[nodiscard]] std::string sink_line(std::string_view subject, std::string_view text);

}  // namespace vramlink::base
