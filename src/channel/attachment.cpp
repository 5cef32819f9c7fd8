// See attachment.hpp.
#include "channel/attachment.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <vramlink/version.hpp>

#include "base/log.hpp"
#include "base/steps.hpp"
#include "base/try.hpp"
#include "channel/attach_error.hpp"
#include "channel/handshake.hpp"
#include "link/peer.hpp"
#include "runtime/call.hpp"

namespace vramlink::inline v0::channel {
namespace {

constexpr const char* kAttachSubscriber = "attach subscriber";

/// In place of the segment of a member that has not come yet.
struct alignas(64) ExpectedWords {
  std::array<std::byte, sizeof(wire::Private)> bytes{};
};

}  // namespace

Attachment::Attachment(const std::shared_ptr<PublisherCore>& publisher)
    : publisher_(publisher), reactor_(publisher->process().reactor()) {}

Result<std::shared_ptr<Attachment>> Attachment::start(
    const std::shared_ptr<PublisherCore>& publisher, os::Socket socket) {
  std::shared_ptr<Attachment> made(new Attachment(publisher));
  std::weak_ptr<Attachment> weak = made;
  link::ConnectionHandlers handlers;
  handlers.on_message = [weak](link::Message message) {
    if (const auto self = weak.lock()) self->on_message(std::move(message));
  };
  handlers.on_hangup = [weak](const Error& why) {
    if (const auto self = weak.lock()) self->reject(why);
  };
  handlers.on_exit = [weak] {
    if (const auto self = weak.lock()) self->on_exit();
  };
  made->connection_ =
      VRAMLINK_TRY(link::Connection::open(made->reactor_, std::move(socket), std::move(handlers)));
  made->timer_ = made->reactor_.at(handshake_deadline(), [weak] {
    if (const auto self = weak.lock()) self->expire();
  });
  return made;
}

void Attachment::refuse(const os::Socket& socket, const Error& why) {
  wire::Refused answer{};
  // What is wrong with our own state is no business of the peer's, and not its state.
  const Code code = why.code() == Code::wrong_state ? Code::driver : why.code();
  answer.code = static_cast<std::uint32_t>(code);
  if (const ErrorFacts* facts = why.facts()) {
    answer.peer_pid = facts->peer_pid;
    answer.numbers = facts->numbers;
    wire::set_text(answer, facts->reason);
  } else {
    wire::set_text(answer, name(why.code()));
  }
  const Result<void> sent = socket.send(wire::encode(answer));
  if (!sent && !sent.failed_with(Code::peer_gone)) {
    base::report_failure("refuse subscriber", sent.error());
  }
}

void Attachment::on_message(link::Message message) {
  // Without memory it is as if it had hung up: a message that is lost would be waited for.
  Result<void> handled = Error(Code::out_of_memory, kAttachSubscriber);
  runtime::call([&] { handled = handle(std::move(message)); });
  // Gone while we answered it: its farewell, if it said one, and the hang-up follow.
  if (handled || handled.failed_with(Code::peer_gone)) return;
  reject(handled.error());
}

Result<void> Attachment::handle(link::Message message) {
  switch (message.type) {
    case wire::MessageType::hello:
      return on_hello(std::move(message));
    case wire::MessageType::mapped:
      return on_mapped(message);
    case wire::MessageType::detached:
      return on_detached(message);
    case wire::MessageType::bye:
      return on_bye(message);
    case wire::MessageType::query:
      return on_query(message);
    default:
      return unexpected(kAttachSubscriber, message.type);
  }
}

void Attachment::reject(const Error& why) {
  if (why.facts()) {  // outcomes are part of work
    // A full channel is asked again and again, and each is told so: nothing to warn of here.
    const bool expected = why.code() == Code::resource_exhausted;
    const std::shared_ptr<PublisherCore> publisher = publisher_.lock();
    base::log(expected ? LogLevel::info : LogLevel::warn, publisher ? publisher->name() : "channel",
              to_string(why));
  }
  if (!is_member()) {
    if (why.code() != Code::peer_gone) refuse(connection_->socket(), why);
    return end(PublisherCore::Leave::farewell);
  }
  if (why.code() == Code::corrupt || why.code() == Code::incompatible) return revoke_all();
  // An alarm only: what it holds counts until its process is proven gone.
  connection_->close(true);
  take_no_more();
}

void Attachment::take_no_more() {
  state_ = State::leaving;
  // It comes to no other generation any more: a seat there would keep its memory for nothing.
  for (const Seat& seat : seats_) {
    if (!seat.entry) continue;
    seat.entry->leaving.store(true, std::memory_order_relaxed);
    if (seat.state != Seat::State::joined) seat.ring->remove(*seat.entry);
  }
  std::erase_if(seats_, [](const Seat& seat) { return seat.state != Seat::State::joined; });
  if (const auto publisher = publisher_.lock()) publisher->members_changed();
}

Result<void> Attachment::on_hello(link::Message message) {
  if (state_ != State::hello) return unexpected(kAttachSubscriber, message.type);
  const wire::Hello hello = VRAMLINK_TRY(message.decode<wire::Hello>());
  const std::shared_ptr<PublisherCore> publisher = publisher_.lock();
  if (!publisher) return Error(Code::peer_gone, kAttachSubscriber);
  if (wire::name_of(hello) != publisher->name()) {
    return Error(Code::not_found, kAttachSubscriber).because("another channel listens here");
  }
  os::UniqueFd sent_pidfd;
  if (!message.fds.empty()) sent_pidfd = std::move(message.fds.front());
  link::Peer peer =
      VRAMLINK_TRY(link::authenticate(connection_->socket(), hello.process, std::move(sent_pidfd)));
  VRAMLINK_CHECK(connection_->watch_exit(std::move(peer.pidfd)));
  pid_ = peer.pid;
  VRAMLINK_STEP("attach.hello_checked");
  return answer(hello);
}

Result<void> Attachment::answer(const wire::Hello& hello) {
  const std::shared_ptr<PublisherCore> publisher = publisher_.lock();
  if (!publisher) return Error(Code::peer_gone, kAttachSubscriber);
  std::shared_ptr<SlotRing> ring = publisher->ring();
  if (ring->ended()) return Error(Code::closed, kAttachSubscriber);
  if (hello.role == wire::Role::observer) {
    VRAMLINK_CHECK(publisher->check_observers());
    return observe(*ring->generation());
  }
  wants_stream_order_ =
      ring->generation()->capabilities.streams && (hello.flags & wire::kHelloStreamOrder) != 0;
  VRAMLINK_CHECK(publisher->check_places(wants_stream_order_));
  asked_depth_ = hello.queue_depth;
  asked_held_ = hello.max_held;
  subscriber_ = publisher->new_subscriber();
  blocked_claims_ = std::make_shared<std::atomic<std::uint64_t>>(0);
  state_ = State::joining;
  seats_.emplace_back().ring = std::move(ring);
  return offer(seats_.back());
}

std::shared_ptr<Member> Attachment::new_member(const Generation& generation) const {
  auto member = std::make_shared<Member>();
  member->pid = pid_;
  member->subscriber = subscriber_;
  member->queue_depth = std::min(asked_depth_, generation.shape.slot_count - 1);
  member->queue_depth_wanted = asked_depth_;
  member->generation = generation.shape.generation;
  member->parking = generation.parking;
  member->blocked_claims = blocked_claims_;
  return member;
}

Result<wire::Offer> Attachment::describe(const Generation& generation) {
  wire::Offer offer{};
  offer.epoch = generation.shape.epoch;
  offer.generation = generation.shape.generation;
  offer.broadcast_bytes = sizeof(wire::Broadcast);
  offer.payload_bytes = generation.slot_pitch * generation.shape.slot_count;
  offer.slot_pitch = generation.slot_pitch;
  offer.slot_count = generation.shape.slot_count;
  offer.memory_kind = generation.capabilities.memory_kind;
  offer.device = generation.device.uuid;
  offer.publisher = VRAMLINK_TRY(link::own_facts());
  return offer;
}

Result<void> Attachment::observe(const Generation& generation) {
  const wire::Offer offer = VRAMLINK_TRY(describe(generation));
  state_ = State::observing;
  reactor_.unwatch(timer_);
  const std::array fds{generation.segment.fd()};
  return connection_->send(offer, fds);
}

Result<void> Attachment::offer(Seat& seat) {
  const std::shared_ptr<PublisherCore> publisher = publisher_.lock();
  if (!publisher) return Error(Code::peer_gone, kAttachSubscriber);
  const Generation& generation = *seat.ring->generation();
  wire::Offer offer = VRAMLINK_TRY(describe(generation));
  seat.member = new_member(generation);
  seat.segment = VRAMLINK_TRY(os::SharedSegment::create("vramlink-private", sizeof(wire::Private)));
  auto mapping =
      std::make_shared<os::Mapping>(VRAMLINK_TRY(seat.segment.map(os::Access::read_write)));
  seat.member->pages.view = {mapping, mapping->data(), mapping->size_bytes()};
  seat.member->words = &wire::private_at(mapping->data());
  const std::uint32_t slot_count = generation.shape.slot_count;
  seat.member->held_count_max = std::min(asked_held_, publisher->held_count_max(slot_count));
  seat.member->held_count_wanted =
      std::min(asked_held_, publisher->held_count_max(publisher->slot_count_max(slot_count)));
  publisher->process().imports().remember(VRAMLINK_TRY(seat.segment.key()),
                                          seat.member->pages.view);
  offer.private_bytes = sizeof(wire::Private);
  offer.granted_depth = seat.member->queue_depth;
  offer.granted_max_held = seat.member->held_count_max;
  const std::array fds{generation.segment.fd(), seat.segment.fd(), generation.memory_export.get()};
  seat.state = Seat::State::offered;
  VRAMLINK_CHECK(connection_->send(offer, fds));
  VRAMLINK_STEP("attach.offered");
  return {};
}

Result<void> Attachment::on_mapped(const link::Message& message) {
  const wire::Mapped mapped = VRAMLINK_TRY(message.decode<wire::Mapped>());
  if (state_ == State::leaving) return {};  // it was on its way when it took its leave
  const auto seat = std::find_if(seats_.begin(), seats_.end(), [](const Seat& candidate) {
    return candidate.state == Seat::State::offered;
  });
  if (seat == seats_.end() || mapped.generation != seat->generation()) {
    return unexpected(kAttachSubscriber, message.type);
  }
  // The peer could have resized it until now; from here on nobody can.
  VRAMLINK_CHECK(seat->segment.add_seals(os::kFullSeals));
  VRAMLINK_CHECK(seat->segment.verify_seals(os::kFullSeals));
  VRAMLINK_STEP("attach.sealed");
  wire::Private& words = *seat->member->words;
  words.magic = wire::kPrivateMagic;
  words.wire = kWireVersion;
  words.bytes = sizeof(wire::Private);
  words.epoch = seat->ring->generation()->shape.epoch;
  words.generation = seat->generation();
  words.max_held = seat->member->held_count_max;
  words.depth = seat->member->queue_depth;
  if (!wants_stream_order_) return let_in(*seat);
  seat->state = Seat::State::sealing;
  register_page(*seat);
  return {};
}

void Attachment::register_page(const Seat& seat) {
  const std::shared_ptr<PublisherCore> publisher = publisher_.lock();
  if (!publisher) return;
  // The job has no use for us: whatever happens meanwhile, it changes the member alone, which
  // nobody else knows yet.
  runtime::ProcessState& process = publisher->process();
  process.janitor().post([weak = weak_from_this(), member = seat.member,
                          generation = seat.ring->generation()]() mutable {
    runtime::ProcessState& owner = *generation->process;
    const std::span<std::byte> page(reinterpret_cast<std::byte*>(member->words->my_ready),
                                    wire::kPageBytes);
    auto registered = generation->backend->register_words(page);
    Result<void> done;
    if (registered) {
      member->my_ready = *std::move(registered);
      member->pages.registered.push_back(member->my_ready);
    } else {
      done = registered.error();
    }
    VRAMLINK_STEP("attach.page_registered");
    // With it, so that nothing of it ends here before the reactor has seen it.
    owner.reactor().post([weak = std::move(weak), member = std::move(member), done] {
      const std::shared_ptr<Attachment> self = weak.lock();
      if (!self || self->state_ == State::leaving) return;
      const std::shared_ptr<PublisherCore> core = self->publisher_.lock();
      if (!done && core) core->suspect_device();
      for (Seat& candidate : self->seats_) {
        if (candidate.member != member || candidate.state != Seat::State::sealing) continue;
        const Result<void> let_in = done ? self->let_in(candidate) : done;
        if (!let_in && !let_in.failed_with(Code::peer_gone)) self->reject(let_in.error());
        return;  // the seats may be others now
      }
    });
  });
}

Result<void> Attachment::let_in(Seat& seat) {
  const std::shared_ptr<PublisherCore> publisher = publisher_.lock();
  if (!publisher) return Error(Code::peer_gone, kAttachSubscriber);
  const bool is_first = !is_member();
  VRAMLINK_CHECK(is_first ? add_member(seat) : seat.ring->join(*seat.entry, seat.member));
  seat.entry = seat.member;
  seat.state = Seat::State::joined;
  seat.segment = os::SharedSegment();  // the mapping stays; the fd is not needed any more
  if (is_first) {
    state_ = State::attached;
    reactor_.unwatch(timer_);
  }
  VRAMLINK_STEP("attach.member");
  VRAMLINK_CHECK(connection_->send(
      wire::Go{{}, seat.generation(), seat.member->first_ticket, seat.member->first_cursor}));
  publisher->welcome(*seat.member, seat.ring->generation()->capabilities.memory_kind);
  VRAMLINK_STEP("attach.go_sent");
  go_on();
  return {};
}

Result<void> Attachment::add_member(Seat& seat) {
  const std::shared_ptr<PublisherCore> publisher = publisher_.lock();
  if (!publisher) return Error(Code::peer_gone, kAttachSubscriber);
  // While another generation is announced, every member has an entry in it.
  const std::shared_ptr<SlotRing> next = publisher->next_ring();
  const bool follows = next && next != seat.ring;
  if (follows) expect_in(next);
  Result<void> added = seat.ring->add(seat.member);
  if (!added) {
    if (follows) {
      next->remove(*seats_.back().entry);
      seats_.pop_back();
    }
    return added;  // stale, of a generation that was just replaced: it tries again, and gets the
                   // next
  }
  publisher->count_newcomer();  // before GO: who has it finds itself counted
  return {};
}

void Attachment::expect_in(const std::shared_ptr<SlotRing>& ring) {
  Seat seat;
  seat.ring = ring;
  seat.entry = new_member(*ring->generation());
  seat.entry->expected = true;
  auto words = std::make_shared<ExpectedWords>();
  seat.entry->words = &wire::private_at(words->bytes.data());
  seat.entry->pages.view = {words, words->bytes.data(), words->bytes.size()};
  seat.entry->welcomed.store(true, std::memory_order_relaxed);
  seats_.push_back(std::move(seat));
  try {
    ring->expect(seats_.back().entry);
  } catch (...) {  // a seat without an entry would be offered, and could not be joined
    seats_.pop_back();
    throw;
  }
}

void Attachment::follow(const std::shared_ptr<SlotRing>& ring) {
  if (state_ == State::attached) expect_in(ring);
}

void Attachment::unfollow(const SlotRing& ring) noexcept {
  std::erase_if(seats_, [&](const Seat& seat) { return seat.ring.get() == &ring; });
}

void Attachment::leave_out_replaced() {
  const std::size_t count = seats_.size();
  // Also behind one that it has been offered and does not answer for, because it is stopped for
  // example: each seat keeps a generation.
  for (auto seat = seats_.begin(); seat != seats_.end();) {
    const bool is_over = seat->state == Seat::State::expected && seat->ring->is_replaced() &&
                         std::next(seat) != seats_.end();
    if (!is_over || (asked_depth_ != 0 && !seat->ring->is_empty())) {
      ++seat;
      continue;
    }
    seat->ring->remove(*seat->entry);
    seat = seats_.erase(seat);
  }
  if (seats_.size() == count) return;
  if (const auto publisher = publisher_.lock()) publisher->members_changed();
}

void Attachment::go_on() {
  if (state_ != State::attached) return;
  leave_out_replaced();
  const auto seat = std::find_if(seats_.begin(), seats_.end(), [](const Seat& candidate) {
    return candidate.state != Seat::State::joined;
  });
  // One after the other.
  if (seat == seats_.end() || seat->state != Seat::State::expected) return;
  const Result<void> offered = offer(*seat);
  if (!offered && !offered.failed_with(Code::peer_gone)) reject(offered.error());
}

Result<void> Attachment::on_detached(const link::Message& message) {
  const wire::Detached detached = VRAMLINK_TRY(message.decode<wire::Detached>());
  const auto seat = std::find_if(seats_.begin(), seats_.end(), [&](const Seat& candidate) {
    return candidate.state == Seat::State::joined && candidate.generation() == detached.generation;
  });
  if (!is_member() || seat == seats_.end()) return unexpected(kAttachSubscriber, message.type);
  const bool is_last = std::next(seat) == seats_.end();
  seat->ring->remove(*seat->entry);
  seats_.erase(seat);
  VRAMLINK_STEP("detach.generation");
  if (is_last) {
    take_no_more();  // it holds older frames still
  } else if (const auto publisher = publisher_.lock()) {
    publisher->members_changed();
  }
  return {};
}

Result<void> Attachment::on_bye(const link::Message& message) {
  const wire::Bye bye = VRAMLINK_TRY(message.decode<wire::Bye>());
  if (!is_member()) {
    end(PublisherCore::Leave::farewell);
    return {};
  }
  if (bye.reason != wire::ByeReason::leaving) {
    end(PublisherCore::Leave::farewell);
    return {};
  }
  take_no_more();
  return {};
}

Result<void> Attachment::on_query(const link::Message& message) {
  if (state_ != State::observing) return unexpected(kAttachSubscriber, message.type);
  static_cast<void>(VRAMLINK_TRY(message.decode<wire::Query>()));
  const std::shared_ptr<PublisherCore> publisher = publisher_.lock();
  if (!publisher) return Error(Code::peer_gone, "answer query");
  return connection_->send(publisher->status());
}

void Attachment::on_exit() { end(PublisherCore::Leave::died); }

void Attachment::revoke(const Member& offender) {
  const bool is_ours = std::any_of(seats_.begin(), seats_.end(),
                                   [&](const Seat& seat) { return seat.entry.get() == &offender; });
  if (is_ours && state_ != State::ended) revoke_all();
}

void Attachment::evict(const Member& holder) {
  const auto found = std::find_if(seats_.begin(), seats_.end(),
                                  [&](const Seat& seat) { return seat.entry.get() == &holder; });
  if (found == seats_.end() || evicted_ || !found->ring->evict(holder)) return;
  evicted_ = true;
  for (const Seat& seat : seats_) {
    if (seat.entry) seat.entry->evicted.store(true, std::memory_order_relaxed);
  }
  const std::shared_ptr<PublisherCore> publisher = publisher_.lock();
  if (publisher) publisher->count_leave(PublisherCore::Leave::evicted);  // before it can know
  tell_revoked(wire::RevokeReason::lease);
  VRAMLINK_STEP("evict.told");
  base::log(LogLevel::warn, publisher ? publisher->name() : "channel",
            "subscriber pid " + std::to_string(pid_) +
                " held a frame for longer than its lease and was disconnected");
  take_no_more();
}

void Attachment::tell_revoked(wire::RevokeReason reason) {
  const bool is_lease = reason == wire::RevokeReason::lease;
  const std::uint32_t flags = wire::kRevoked | (is_lease ? wire::kLeaseOver : 0);
  std::uint64_t generation = 0;
  for (const Seat& seat : seats_) {
    if (seat.state != Seat::State::joined) continue;
    // Before its holds end, if they do: who sees them end sees the flag. Pairs with
    // SubscriberSession::end().
    seat.member->words->flags.fetch_or(flags, std::memory_order_release);
    generation = seat.generation();
  }
  if (is_lease) VRAMLINK_STEP("evict.flag_set");
  const Result<void> sent = connection_->send(wire::Revoked{{}, generation, reason, 0});
  if (!sent && !sent.failed_with(Code::peer_gone)) {
    base::report_failure("revoke subscriber", sent.error());
  }
}

void Attachment::revoke_all() {
  tell_revoked(wire::RevokeReason::corrupt);
  const std::shared_ptr<PublisherCore> publisher = publisher_.lock();
  base::log(LogLevel::warn, publisher ? publisher->name() : "channel",
            "subscriber pid " + std::to_string(pid_) +
                " wrote what the protocol forbids and was thrown out");
  end(PublisherCore::Leave::revoked);
}

void Attachment::tell_failure(std::uint32_t code) {
  if (!is_member()) return;
  const Result<void> sent = connection_->send(wire::Failed{{}, code, 0});
  if (!sent && !sent.failed_with(Code::peer_gone)) {
    base::report_failure("tell subscriber of the failure", sent.error());
  }
}

void Attachment::end(PublisherCore::Leave how) {
  if (state_ == State::ended) return;
  const bool was_member = is_member();
  state_ = State::ended;
  reactor_.unwatch(timer_);
  const std::shared_ptr<PublisherCore> publisher = publisher_.lock();
  if (publisher && was_member && !evicted_) publisher->count_leave(how);
  const std::uint32_t held = how == PublisherCore::Leave::died ? held_slots() : 0;
  for (const Seat& seat : seats_) {
    if (seat.entry) seat.ring->remove(*seat.entry);
  }
  if (publisher && was_member && how == PublisherCore::Leave::died) {
    base::log(LogLevel::info, publisher->name(),
              "subscriber pid " + std::to_string(pid_) + " died; slots that it held, " +
                  std::to_string(held) + ", can be claimed again");
  }
  if (was_member) VRAMLINK_STEP("detach.removed");
  seats_.clear();
  if (publisher) publisher->members_changed();
  connection_->close();  // a peer that sees this finds itself dismissed
  if (publisher) publisher->forget(*this);
}

std::uint32_t Attachment::held_slots() const noexcept {
  std::uint32_t held = 0;
  for (const Seat& seat : seats_) {
    if (seat.entry) held += seat.entry->held_at_once(seat.ring->generation()->shape.slot_count);
  }
  return held;
}

void Attachment::expire() {
  if (state_ == State::hello || state_ == State::joining) end(PublisherCore::Leave::farewell);
}

void Attachment::make_room() {
  if (is_silent()) end(PublisherCore::Leave::farewell);
}

void Attachment::close() noexcept {
  reactor_.unwatch(timer_);
  connection_->close();
}

}  // namespace vramlink::inline v0::channel
