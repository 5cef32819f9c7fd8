// The library's own messages, and errors of calls that cannot return one.
#pragma once

#include <string_view>

#include <vramlink/error.hpp>
#include <vramlink/log.hpp>

namespace vramlink::base {

struct LogLine;  // log_settings.hpp

/// True if a line of this level would be written; one relaxed load.
[[nodiscard]] bool log_enabled(LogLevel level) noexcept;

/// Writes one line: wall and monotonic time, level, pid, `subject` (channel or component), text.
/// Thread-safe; may block on the sink, except on a thread with a hand-off.
void log(LogLevel level, std::string_view subject, std::string_view text) noexcept;
/// log() of a line that was made earlier: its times are kept where the sink shows times.
void log_line(const LogLine& line) noexcept;

/// Takes a line, whose texts live as long as the call. Must not block; see log_relay.hpp.
using LogHandoff = void (*)(const LogLine& line, void* user);
/// From now on what the calling thread logs goes to `handoff`, on this thread, and not to the sink;
/// null ends that. `user` is passed through. For a thread that must not wait for a sink.
void set_thread_log_handoff(LogHandoff handoff, void* user) noexcept;

/// For destructors, callbacks and finalizers: logs at warn.
void report_failure(const char* operation, const Error& error) noexcept;

}  // namespace vramlink::base
