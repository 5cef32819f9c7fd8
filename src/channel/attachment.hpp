// The publisher's end of one connection: from HELLO to the farewell or the proof of a death.
//
//   hello --HELLO(observer)--> observing     answers QUERY
//         --HELLO------------> joining --GO--> attached --BYE(leaving), EOF--> leaving
//                       attached, leaving --a lease is over--> leaving, evicted
//   leaving and attached end with BYE(drained), BYE(failed), the pidfd, or when they break the
//   protocol; the others end with EOF.
//
// A seat, which an attached one has in several generations:
//   expected --OFFER--> offered --MAPPED--> joined --DETACHED--> (gone)
//                               --MAPPED--> sealing --page registered--> joined
#pragma once

#include <deque>
#include <memory>

#include <vramlink/result.hpp>

#include "channel/member.hpp"
#include "channel/publisher_core.hpp"
#include "link/connection.hpp"
#include "os/shared_segment.hpp"
#include "os/socket.hpp"

namespace vramlink::inline v0::channel {

/// A subscriber's place in one generation.
struct Seat {
  enum class State : std::uint8_t { expected, offered, sealing, joined };

  std::shared_ptr<SlotRing> ring;
  State state = State::expected;
  std::shared_ptr<Member> entry;   ///< the ring's; null: none before it has joined
  std::shared_ptr<Member> member;  ///< from the offer on; the entry once it has joined
  os::SharedSegment segment;       ///< the private one, until it is sealed

  [[nodiscard]] std::uint64_t generation() const noexcept {
    return ring->generation()->shape.generation;
  }
};

/// Everything runs on the reactor's thread. Owned by its PublisherCore, which it refers to weakly.
class Attachment : public std::enable_shared_from_this<Attachment> {
 public:
  /// Starts to listen to a connection. Codes: os, resource_exhausted.
  [[nodiscard]] static Result<std::shared_ptr<Attachment>> start(
      const std::shared_ptr<PublisherCore>& publisher, os::Socket socket);
  /// Tells a peer why it is not let in, then hangs up.
  static void refuse(const os::Socket& socket, const Error& why);

  /// A member gets an entry in the ring that is to be next. It hears of it with go_on(). If there
  /// is no memory for the entry, it is as if nothing had been asked.
  void follow(const std::shared_ptr<SlotRing>& ring);
  /// That ring is not to be next after all; nobody was told of it, and nobody else has it.
  void unfollow(const SlotRing& ring) noexcept;
  /// Offers the next generation once the one before is joined, and leaves out those that were
  /// replaced before it came to them.
  void go_on();
  /// Ends the session of a member that broke the protocol.
  void revoke(const Member& offender);
  /// Disconnects a member that has held a frame for longer than its lease, unless it has just let
  /// go: no new frames, and what it holds counts until it says that it drained, or has died.
  void evict(const Member& holder);
  /// The publisher's device has failed: `code` says how.
  void tell_failure(std::uint32_t code);
  /// The publisher ends: hangs up.
  void close() noexcept;
  /// The handshake has taken too long: lets a peer go that is not through with it.
  void expire();
  /// Others want in: lets a peer go that has not even said HELLO.
  void make_room();
  [[nodiscard]] bool is_silent() const noexcept { return state_ == State::hello; }
  /// It is a subscriber, or about to become one.
  [[nodiscard]] bool takes_place() const noexcept { return is_scanned() && !evicted_; }
  /// The same, also if it was evicted and holds frames still.
  [[nodiscard]] bool is_scanned() const noexcept { return state_ == State::joining || is_member(); }
  /// Such a one that asked for stream order: its words are written until it has drained.
  [[nodiscard]] bool takes_stream_place() const noexcept {
    return is_scanned() && wants_stream_order_;
  }
  [[nodiscard]] bool observes() const noexcept { return state_ == State::observing; }

 private:
  enum class State { hello, observing, joining, attached, leaving, ended };

  explicit Attachment(const std::shared_ptr<PublisherCore>& publisher);
  [[nodiscard]] bool is_member() const noexcept {
    return state_ == State::attached || state_ == State::leaving;
  }
  void on_message(link::Message message);
  [[nodiscard]] Result<void> handle(link::Message message);
  [[nodiscard]] Result<void> on_hello(link::Message message);
  [[nodiscard]] Result<void> answer(const wire::Hello& hello);
  [[nodiscard]] Result<void> observe(const Generation& generation);
  [[nodiscard]] Result<void> offer(Seat& seat);
  [[nodiscard]] Result<void> on_mapped(const link::Message& message);
  /// Registers my_ready on the janitor; back on the reactor lets the subscriber in.
  void register_page(const Seat& seat);
  [[nodiscard]] Result<void> let_in(Seat& seat);
  [[nodiscard]] Result<void> add_member(Seat& seat);
  [[nodiscard]] Result<void> on_detached(const link::Message& message);
  [[nodiscard]] Result<void> on_bye(const link::Message& message);
  [[nodiscard]] Result<void> on_query(const link::Message& message);
  void on_exit();
  /// The peer hung up, broke the protocol or cannot be served.
  void reject(const Error& why);
  /// Its frames stay its own; the queue does not wait for it any more.
  void take_no_more();
  void expect_in(const std::shared_ptr<SlotRing>& ring);
  /// Gives up the seats of replaced generations in which nothing is wanted.
  void leave_out_replaced();
  void revoke_all();
  /// In all its segments, and by a message. What is to be said of its holds comes first.
  void tell_revoked(wire::RevokeReason reason);
  [[nodiscard]] static Result<wire::Offer> describe(const Generation& generation);
  [[nodiscard]] std::shared_ptr<Member> new_member(const Generation& generation) const;
  void end(PublisherCore::Leave how);
  /// Of all generations, now.
  [[nodiscard]] std::uint32_t held_slots() const noexcept;

  std::weak_ptr<PublisherCore> publisher_;
  runtime::Reactor& reactor_;
  runtime::WatchId timer_ = 0;  ///< of the handshake's limit; set by start() alone
  std::shared_ptr<link::Connection> connection_;
  State state_ = State::hello;
  std::deque<Seat> seats_;  ///< oldest first
  // What HELLO said.
  std::int32_t pid_ = 0;
  std::uint64_t subscriber_ = 0;
  std::uint32_t asked_depth_ = 0;
  std::uint32_t asked_held_ = 0;
  bool wants_stream_order_ = false;
  bool evicted_ = false;
  std::shared_ptr<std::atomic<std::uint64_t>> blocked_claims_;
};

}  // namespace vramlink::inline v0::channel
