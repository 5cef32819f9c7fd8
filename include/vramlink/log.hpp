// Where the library's own messages go.
#ifndef VRAMLINK_LOG_HPP
#define VRAMLINK_LOG_HPP

#include <cstdint>
#include <string_view>

#include <vramlink/export.hpp>

namespace vramlink::inline v0 {

enum class LogLevel : std::uint8_t { off = 0, warn = 1, info = 2, debug = 3, trace = 4 };

/// Receives one line without a newline, "subject: text", its control characters escaped. Called
/// from any thread, also one of the library's own, one call at a time; it must not call back into
/// vramlink and must not throw. One that blocks keeps those waiting who log, and new subscribers
/// from attaching, but not the thread that watches peers: of that thread's lines at most 256 wait,
/// later ones are counted instead, and so are repeats within a second. The end of the last Runtime
/// waits for the sink: hold no lock (such as Python's) there that it needs.
using LogSink = void (*)(LogLevel level, std::string_view line, void* user);

/// Replaces the sink; null restores the default, which writes to stderr what VRAMLINK_LOG allows
/// (`warn|info|debug|trace|off[,file=PATH][,json]`, read once, default warn); `level` then counts
/// for nothing. `user` is passed through and stays the caller's.
/// Thread-safe; after it returns the old sink is not called any more.
VRAMLINK_API void set_log_sink(LogSink sink, void* user, LogLevel level) noexcept;

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_LOG_HPP
