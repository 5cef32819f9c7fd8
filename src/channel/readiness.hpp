// A subscriber's readiness as a file descriptor: a thread that sleeps on the bell in the event
// loop's place.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include <vramlink/result.hpp>

#include "os/fd.hpp"

namespace vramlink::inline v0::channel {

class SubscriberCore;

/// The eventfd is set from the moment that something may be there until a try_receive found
/// nothing. States of the thread: armed (sleeps until news, then sets the eventfd) and set (sleeps
/// until rearm). Owned by the SubscriberCore, which it uses until stop() returns.
class Readiness {
 public:
  /// Codes: os, resource_exhausted.
  [[nodiscard]] static Result<std::shared_ptr<Readiness>> start(SubscriberCore& core);
  /// Ends the thread. From any thread but its own.
  ~Readiness();
  Readiness(const Readiness&) = delete;
  Readiness& operator=(const Readiness&) = delete;

  [[nodiscard]] int fd() const noexcept { return event_.get(); }
  /// After a look that found nothing, before a second one: what comes later sets the eventfd again.
  void clear() noexcept;
  /// After a second look that found something.
  void set() noexcept;
  /// After a second look that found nothing.
  void rearm() noexcept;

 private:
  Readiness(SubscriberCore& core, os::UniqueFd event) noexcept;
  void run() noexcept;

  SubscriberCore& core_;
  os::UniqueFd event_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool armed_ = true;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace vramlink::inline v0::channel
