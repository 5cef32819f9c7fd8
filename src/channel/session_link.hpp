// What the sessions of one connection share: a subscriber has one in every generation of its
// publisher that it has not left.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <vramlink/error.hpp>

#include "link/connection.hpp"
#include "wire/messages.hpp"

namespace vramlink::inline v0::channel {

class StreamWork;
class SubscriberSession;

/// Why there will be no new frames, as far as this side knows. The first one stands.
/// evicted: revoked for a hold beyond its lease, and what is held is ours still.
enum class Fate : std::uint32_t { live = 0, gone, revoked, failed, evicted };

/// Refers to the sessions weakly; they own it, and so does the attempt that makes them. The last of
/// them says BYE and hangs up, the others are only detached. Thread-safe.
class SessionLink {
 public:
  explicit SessionLink(std::shared_ptr<link::Connection> connection);

  /// Sessions that are not over. A publisher that begins one generation after the other, unread or
  /// held, is followed so far and no further.
  static constexpr std::uint32_t kSessionsMax = 64;
  [[nodiscard]] bool is_full();
  /// One more, before anybody else has it.
  void add(const std::shared_ptr<SubscriberSession>& session);
  /// One less; what it held is given back. `failed` is everybody's end.
  void part(std::uint64_t generation, wire::ByeReason reason) noexcept;
  /// No new frames are taken, in no generation.
  void leave(std::uint64_t generation) noexcept;

  /// GO of one more generation has come, and its session is being made: until then a publisher's
  /// end is not everything.
  void set_coming(bool coming) noexcept { coming_.store(coming, std::memory_order_seq_cst); }
  [[nodiscard]] bool is_coming() const noexcept { return coming_.load(std::memory_order_seq_cst); }

  /// Its end was told: a session that comes late is none any more.
  void retire() noexcept { retired_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool is_retired() const noexcept {
    return retired_.load(std::memory_order_relaxed);
  }

  /// To all sessions, and to streams that wait still for one that is gone.
  void set_fate(Fate fate) noexcept;
  /// Our device has failed under one of them.
  void fail(const Error& why) noexcept;

 private:
  struct Entry {
    std::weak_ptr<SubscriberSession> session;
    std::weak_ptr<StreamWork> stream_work;  ///< may outlive it
  };
  [[nodiscard]] std::vector<Entry> entries();

  const std::shared_ptr<link::Connection> connection_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::uint32_t living_ = 0;
  std::atomic<bool> coming_{false};
  std::atomic<bool> retired_{false};  ///< under the Subscriber's mutex
};

}  // namespace vramlink::inline v0::channel
