// cli: what people read. Talk goes to stderr, data to stdout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <vramlink/error.hpp>

namespace vramlink::cli {

enum class ColorChoice : std::uint8_t { automatic, always, never };

/// Set once, from --color, before anything is written.
void set_color_choice(ColorChoice choice) noexcept;
/// True if `fd` may get colour: NO_COLOR, CLICOLOR_FORCE, TERM=dumb and --color decide.
[[nodiscard]] bool color_allowed(int fd) noexcept;
/// True if lines written to `fd` may be overwritten: a terminal that is not dumb.
[[nodiscard]] bool can_redraw(int fd) noexcept;
/// `text` in bold if `fd` may get colour.
[[nodiscard]] std::string bold(std::string_view text, int fd);

enum class Color : std::uint8_t { none, red, green, yellow };
/// `text` in that colour if `fd` may get colour.
[[nodiscard]] std::string colored(std::string_view text, Color color, int fd);

/// One line to stderr, after "vramlink: ".
void say(std::string_view line);
/// Says what, why and what next, and returns the exit code. A closed pipe is not worth a word.
[[nodiscard]] int fail(const Error& error);
/// What to_string says without what to do, for where the remedy has a line of its own.
[[nodiscard]] std::string text_without_remedy(const Error& error);
/// What to do; empty if the error does not say.
[[nodiscard]] std::string remedy_of(const Error& error);
/// Writes all of `text` to stdout. False if that failed; then errno says why.
[[nodiscard]] bool print(std::string_view text);
/// print(), and the exit code that follows: kSuccess, kBrokenPipe or kFailure.
[[nodiscard]] int print_and_finish(std::string_view text);

/// "3.1 MB"; powers of 1000.
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
/// `value` with `digits` behind the point.
[[nodiscard]] std::string fixed(double value, int digits);
/// "85 us", "1.2 ms"; "unknown" for negative values.
[[nodiscard]] std::string duration_text(std::int64_t ns);

}  // namespace vramlink::cli
