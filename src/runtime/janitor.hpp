// The thread for work that the reactor must not do: every back-end call that is not the caller's
// own, the end of objects that need one, and calls of the log's sink.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include <vramlink/deadline.hpp>
#include <vramlink/result.hpp>

namespace vramlink::runtime {

/// A queue and one thread; ProcessState starts it. Jobs run in order, and all of them: the
/// destructor runs what is queued before it returns. Jobs for a later time are dropped by it, so
/// who needs them to run keeps the process's state alive in them. Thread-safe.
class Janitor {
 public:
  Janitor() = default;
  ~Janitor();
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  /// Starts the thread if it does not run; before the first post. Codes: resource_exhausted.
  [[nodiscard]] Result<void> start();
  /// Never blocks on a job. May be called from a job and from the reactor.
  void post(std::function<void()> job);
  /// Runs `job` once, at or after `when`; among those that are due in order of time.
  void post_at(Deadline when, std::function<void()> job);
  /// Blocks until the jobs posted so far have run. Not from a job.
  void drain();
  /// The same, with an end. Codes: timed_out.
  [[nodiscard]] Result<void> drain_until(Deadline deadline);
  [[nodiscard]] bool on_janitor_thread() noexcept;

 private:
  void run() noexcept;
  void take_due();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  std::multimap<Deadline, std::function<void()>> later_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace vramlink::runtime
