// base: the process-wide log. It is never destroyed: objects of other files log while the process
// ends.
#include "base/log.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <new>

#include <vramlink/deadline.hpp>

#include "base/log_settings.hpp"

namespace vramlink::base {
namespace {

// Before the first use. Above every level, so that the quick look at it says "enabled".
constexpr std::uint8_t kUnread = 255;
std::atomic<std::uint8_t> g_level{kUnread};

struct Handoff {
  LogHandoff take = nullptr;
  void* user = nullptr;
};
thread_local constinit Handoff t_handoff;

std::int64_t wall_ns() noexcept {
  std::timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

LogLine line_now(LogLevel level, std::string_view subject, std::string_view text) noexcept {
  return {level, wall_ns(), monotonic_ns(), ::getpid(), subject, text};
}

class Log {
 public:
  // The only instance; the first call reads VRAMLINK_LOG.
  static Log& instance() {
    alignas(Log) static std::byte storage[sizeof(Log)];
    static Log* const log = new (storage) Log;
    return *log;
  }

  void replace_sink(LogSink sink, void* user, LogLevel level) {
    const std::lock_guard lock(mutex_);
    sink_ = sink;
    user_ = user;
    store_level(sink ? level : settings_.level);
  }

  void write(const LogLine& line) {
    const std::lock_guard lock(mutex_);
    if (line.level > static_cast<LogLevel>(g_level.load(std::memory_order_relaxed))) return;
    if (sink_) {
      sink_(line.level, sink_line(line.subject, line.text), user_);
    } else {
      write_default(line);
    }
  }

 private:
  Log() {
    const char* text = std::getenv("VRAMLINK_LOG");
    settings_ = parse_log_settings(text ? text : "");
    // 'e' closes it on exec. Unbuffered, a line is one write, also among processes that append.
    if (!settings_.file.empty()) file_ = std::fopen(settings_.file.c_str(), "ae");
    const int open_errno = errno;
    store_level(settings_.level);
    if (file_) {
      std::setvbuf(file_, nullptr, _IONBF, 0);
    } else if (!settings_.file.empty()) {
      const Error error =
          Error(Code::os, "open log file").about(settings_.file).from(Origin::os, open_errno);
      write_default(line_now(LogLevel::warn, "log", to_string(error)));
    }
    if (!settings_.mistakes.empty()) {
      write_default(line_now(LogLevel::warn, "log",
                             "VRAMLINK_LOG: not understood: " + settings_.mistakes +
                                 ". Try: warn|info|debug|trace|off[,file=PATH][,json]"));
    }
  }

  static void store_level(LogLevel level) noexcept {
    g_level.store(static_cast<std::uint8_t>(level), std::memory_order_relaxed);
  }

  void write_default(const LogLine& line) {
    const std::string bytes = (settings_.json ? json_line(line) : text_line(line)) + '\n';
    std::fwrite(bytes.data(), 1, bytes.size(), file_ ? file_ : stderr);
  }

  std::mutex mutex_;  // held while a sink runs: after a replacement the old one is not called
  LogSettings settings_;
  std::FILE* file_ = nullptr;
  LogSink sink_ = nullptr;
  void* user_ = nullptr;
};

}  // namespace

bool log_enabled(LogLevel level) noexcept {
  return static_cast<std::uint8_t>(level) <= g_level.load(std::memory_order_relaxed);
}

void log(LogLevel level, std::string_view subject, std::string_view text) noexcept {
  if (level == LogLevel::off || !log_enabled(level)) return;
  const LogLine line = line_now(level, subject, text);
  if (t_handoff.take == nullptr) return log_line(line);
  try {
    t_handoff.take(line, t_handoff.user);
  } catch (...) {
    // Out of memory: see log_line().
  }
}

void log_line(const LogLine& line) noexcept {
  try {
    Log::instance().write(line);
  } catch (...) {
    // Out of memory, or a sink broke its promise: a log has nobody to tell.
  }
}

void set_thread_log_handoff(LogHandoff handoff, void* user) noexcept {
  t_handoff = {handoff, user};
}

void report_failure(const char* operation, const Error& error) noexcept {
  if (!log_enabled(LogLevel::warn)) return;
  try {
    log(LogLevel::warn, operation, to_string(error));
  } catch (...) {
    log(LogLevel::warn, operation, error.operation());
  }
}

}  // namespace vramlink::base

namespace vramlink::inline v0 {

void set_log_sink(LogSink sink, void* user, LogLevel level) noexcept {
  try {
    base::Log::instance().replace_sink(sink, user, level);
  } catch (...) {
    // Only the first use allocates; without memory the default stays.
  }
}

}  // namespace vramlink::inline v0
