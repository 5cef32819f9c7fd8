// Lines of a thread that must not wait for the log's sink, on their way to a thread that may.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "base/log_settings.hpp"

namespace vramlink::base {

/// Bounded, and without repeats: a line that comes again within a second is counted, and the count
/// is told when that line comes later, when others have pushed it from memory, or at the end.
/// Thread-safe; the lock is never held while a sink runs.
class LogRelay {
 public:
  static constexpr std::size_t kWaitingMax = 256;
  static constexpr std::int64_t kRepeatNs = 1'000'000'000;

  LogRelay() = default;
  LogRelay(const LogRelay&) = delete;
  LogRelay& operator=(const LogRelay&) = delete;
  /// Writes what is left; may block on the sink.
  ~LogRelay() {
    try {
      for (Recent& recent : recent_) tell_repeats(recent);
    } catch (...) {
      // Out of memory: the rest is still written.
    }
    write_waiting();
  }

  /// Never blocks on a sink. True if nobody is asked yet to call write_waiting().
  [[nodiscard]] bool take(const LogLine& line) {
    const std::lock_guard lock(mutex_);
    Recent& recent = place_of(line);
    const bool same = recent.line.subject == line.subject && recent.line.text == line.text;
    if (same && recent.used && line.monotonic_ns - recent.line.monotonic_ns < kRepeatNs) {
      ++recent.repeats;
      return false;
    }
    tell_repeats(recent);
    recent = {own(line), 0, true};
    push(recent.line);
    return !std::exchange(asked_, true);
  }

  /// Writes what waits now; may block on the sink.
  void write_waiting() noexcept {
    std::deque<Owned> lines;
    {
      const std::lock_guard lock(mutex_);
      lines.swap(waiting_);
      asked_ = false;
    }
    for (const Owned& line : lines) {
      log_line({line.level, line.wall_ns, line.monotonic_ns, line.pid, line.subject, line.text});
    }
  }

 private:
  struct Owned {
    LogLevel level = LogLevel::off;
    std::int64_t wall_ns = 0;
    std::int64_t monotonic_ns = 0;
    std::int32_t pid = 0;
    std::string subject;
    std::string text;
  };
  struct Recent {
    Owned line;
    std::uint64_t repeats = 0;
    bool used = false;
  };

  static Owned own(const LogLine& line) {
    return {line.level,
            line.wall_ns,
            line.monotonic_ns,
            line.pid,
            std::string(line.subject),
            std::string(line.text)};
  }
  /// Where the line is remembered, or the place of the oldest one.
  Recent& place_of(const LogLine& line) {
    const auto found = std::find_if(recent_.begin(), recent_.end(), [&](const Recent& recent) {
      return recent.used && recent.line.subject == line.subject && recent.line.text == line.text;
    });
    if (found != recent_.end()) return *found;
    return *std::min_element(recent_.begin(), recent_.end(), [](const auto& a, const auto& b) {
      return a.line.monotonic_ns < b.line.monotonic_ns;
    });
  }
  void tell_repeats(Recent& recent) {
    if (recent.repeats == 0) return;
    Owned line = recent.line;
    line.text += " ... " + std::to_string(std::exchange(recent.repeats, 0)) + " more";
    push(std::move(line));
  }
  void push(Owned line) {
    if (waiting_.size() >= kWaitingMax) {
      ++dropped_;
      return;
    }
    if (const std::uint64_t dropped = std::exchange(dropped_, 0); dropped != 0) {
      line.text += " (" + std::to_string(dropped) + " lines before were dropped: the sink is slow)";
    }
    waiting_.push_back(std::move(line));
  }

  std::mutex mutex_;
  std::deque<Owned> waiting_;
  std::array<Recent, 8> recent_{};
  std::uint64_t dropped_ = 0;
  bool asked_ = false;
};

}  // namespace vramlink::base
