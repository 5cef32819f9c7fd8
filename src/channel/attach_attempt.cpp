// AttachAttempt: the subscriber's end of a handshake (see attacher.hpp).
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/log.hpp"
#include "base/steps.hpp"
#include "base/try.hpp"
#include "channel/attach_error.hpp"
#include "channel/attacher.hpp"
#include "channel/handshake.hpp"
#include "channel/memory_path.hpp"
#include "channel/subscriber_core.hpp"
#include "link/peer.hpp"
#include "os/fork_guard.hpp"
#include "os/process.hpp"
#include "runtime/end_on_janitor.hpp"

namespace vramlink::inline v0::channel {
namespace {

constexpr const char* kAttachToPublisher = "attach to publisher";

Error inconsistent(const char* field) {
  return Error(Code::corrupt, kAttachToPublisher)
      .about(field)
      .because("the publisher's messages and its segments do not agree");
}

Result<runtime::SharedView> view_of(Result<os::Mapping> mapping) {
  auto owner = std::make_shared<os::Mapping>(VRAMLINK_TRY(std::move(mapping)));
  return runtime::SharedView{owner, owner->data(), owner->size_bytes()};
}

Result<runtime::SharedView> import_view(backend::Backend& backend, os::UniqueFd fd,
                                        std::uint64_t size_bytes, os::Access access) {
  std::shared_ptr<backend::ImportedMemory> memory =
      VRAMLINK_TRY(backend.import_memory(std::move(fd), size_bytes, access));
  return runtime::SharedView{memory, memory->data(), memory->size_bytes()};
}

}  // namespace

AttachAttempt::AttachAttempt(std::shared_ptr<Attacher> attacher, std::weak_ptr<SubscriberCore> core)
    : attacher_(attacher), core_(std::move(core)), process_(attacher->process_) {}

AttachAttempt::~AttachAttempt() {
  if (!parts_.payload.owner || os::in_forked_child()) return;
  process_->janitor().post(
      [parts = std::make_shared<SubscriberSession::Parts>(std::move(parts_))] {});
}

Result<void> AttachAttempt::start(os::Socket socket) {
  const std::shared_ptr<Attacher> attacher = attacher_.lock();
  if (!attacher) return Error(Code::closed, kAttachToPublisher);
  const std::weak_ptr<AttachAttempt> weak = weak_from_this();
  link::ConnectionHandlers handlers;
  handlers.on_message = [weak](link::Message message) {
    if (const auto self = weak.lock()) self->on_message(std::move(message));
  };
  handlers.on_hangup = [weak](const Error& why) {
    if (const auto self = weak.lock()) self->on_end(why);
  };
  handlers.on_exit = [weak] {
    if (const auto self = weak.lock()) self->on_end(Error(Code::peer_gone, "watch publisher"));
  };
  connection_ = VRAMLINK_TRY(
      link::Connection::open(process_->reactor(), std::move(socket), std::move(handlers)));
  link_ = std::make_shared<SessionLink>(connection_);
  VRAMLINK_CHECK(watch_publisher());
  wire::Hello hello{};
  hello.role = wire::Role::subscriber;
  hello.process = VRAMLINK_TRY(link::own_facts());
  asked_depth_ = attacher->options_.policy.queue_depth;
  asked_max_held_ = attacher->options_.held_count_max;
  name_ = attacher->name();
  hello.queue_depth = asked_depth_;
  hello.max_held = asked_max_held_;
  asked_stream_order_ = attacher->options_.stream_order;
  asked_device_ = attacher->options_.device;
  asked_copies_ = attacher->options_.copy_frames;
  if (asked_stream_order_) hello.flags |= wire::kHelloStreamOrder;
  if (asked_device_) hello.device = asked_device_->uuid;
  wire::set_name(hello, name_);
  const Result<os::UniqueFd> own_pidfd = os::open_pidfd(hello.process.pid);
  std::vector<int> fds;
  if (own_pidfd) {  // for a publisher that cannot see our pid
    hello.flags |= wire::kHelloPidfd;
    fds.push_back(own_pidfd->get());
  }
  const Result<void> sent = connection_->send(hello, fds);
  // A publisher that hung up before may have said why: its REFUSED is read as any other.
  if (!sent && !sent.failed_with(Code::peer_gone)) return sent.error();
  VRAMLINK_STEP("attach.hello_sent");
  timer_ = process_->reactor().at(handshake_deadline(), [weak] {
    if (const auto self = weak.lock()) self->expire();
  });
  return {};
}

Result<void> AttachAttempt::watch_publisher() {
  // Before its first answer: a forked child of a dead publisher keeps its socket open, and would
  // let us wait for an answer that nobody sends.
  Result<os::UniqueFd> pidfd = connection_->socket().peer_pidfd();
  if (pidfd.failed_with(Code::unsupported)) return {};  // on_offer() finds another way
  if (!pidfd) return pidfd.error();
  if (os::pidfd_exited(pidfd->get())) return Error(Code::peer_gone, "watch publisher");
  watches_exit_ = true;
  return connection_->watch_exit(*std::move(pidfd));
}

void AttachAttempt::abandon() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (attached_) return;  // the connection is the session's now
    ended_ = true;
    left_ = true;
  }
  if (connection_) hang_up();
}

bool AttachAttempt::under_way() const noexcept {
  const std::lock_guard lock(mutex_);
  return !attached_ && !ended_;
}

void AttachAttempt::hang_up() noexcept {
  process_->reactor().unwatch(timer_);
  // Without a farewell the publisher, which may count us in already, waits for our process's end.
  if (generation_ != 0) {
    const Result<void> sent =
        connection_->send(wire::Bye{{}, generation_, wire::ByeReason::drained, 0});
    if (!sent && sent.error().facts()) base::report_failure("leave publisher", sent.error());
  }
  connection_->close();
  drop_parts();
}

void AttachAttempt::drop_parts() {
  // What is mapped is unmapped there, after a step that is queued already, and not with us here.
  process_->janitor().post([self = shared_from_this()] {
    self->offer_ = {};
    self->parts_ = {};
    self->private_segment_ = os::SharedSegment();
  });
}

void AttachAttempt::on_message(link::Message message) {
  const Result<void> handled = handle(std::move(message));
  if (!handled) on_end(handled.error());
}

Result<void> AttachAttempt::handle(link::Message message) {
  switch (message.type) {
    case wire::MessageType::offer:
      if (std::exchange(offered_, true)) return unexpected(kAttachToPublisher, message.type);
      return on_offer(std::move(message));
    case wire::MessageType::go: {
      if (!std::exchange(offered_, false)) return unexpected(kAttachToPublisher, message.type);
      const wire::Go go = VRAMLINK_TRY(message.decode<wire::Go>());
      if (std::exchange(went_, true)) link_->set_coming(true);
      run_on_janitor([go](AttachAttempt& self) {
        const Result<void> finished = self.finish(go);
        self.link_->set_coming(false);
        return finished;
      });
      return {};
    }
    case wire::MessageType::refused: {
      const wire::Refused refused = VRAMLINK_TRY(message.decode<wire::Refused>());
      if (went_) return unexpected(kAttachToPublisher, message.type);
      return refusal(kAttachToPublisher, name_, refused);
    }
    case wire::MessageType::revoked: {
      const wire::Revoked revoked = VRAMLINK_TRY(message.decode<wire::Revoked>());
      const bool is_lease = revoked.reason == wire::RevokeReason::lease;
      link_->set_fate(is_lease ? Fate::evicted : Fate::revoked);
      return {};
    }
    case wire::MessageType::failed:
      static_cast<void>(VRAMLINK_TRY(message.decode<wire::Failed>()));
      return Error(Code::peer_gone, "watch publisher");
    default:
      return unexpected(kAttachToPublisher, message.type);
  }
}

Result<void> AttachAttempt::on_offer(link::Message message) {
  const wire::Offer offer = VRAMLINK_TRY(message.decode<wire::Offer>());
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return {};
  }
  if (message.fds.size() != 3) return inconsistent("fds");
  if (offer.generation <= generation_) return inconsistent("generation");
  if (link_->is_full()) {
    on_failure(Error(Code::resource_exhausted, kAttachToPublisher)
                   .about(name_)
                   .because("frames of too many generations are held, or wait to be received")
                   .numbers(SessionLink::kSessionsMax, SessionLink::kSessionsMax));
    return {};
  }
  const bool is_first = std::exchange(generation_, offer.generation) == 0;
  if (is_first) {
    Result<link::Peer> peer =
        link::authenticate(connection_->socket(), offer.publisher, os::UniqueFd());
    // One whose process we cannot see before Linux 6.5: its hang-up is all that we hear, and
    // enough, since nothing of ours is reused by its death.
    if (!peer && !peer.failed_with(Code::unsupported)) return std::move(peer).error();
    if (peer && !watches_exit_) VRAMLINK_CHECK(connection_->watch_exit(std::move(peer->pidfd)));
  }
  auto fds = std::make_shared<std::vector<os::UniqueFd>>(std::move(message.fds));
  run_on_janitor([offer, fds](AttachAttempt& self) { return self.map(offer, std::move(*fds)); });
  return {};
}

void AttachAttempt::run_on_janitor(std::function<Result<void>(AttachAttempt&)> step) {
  process_->janitor().post([self = shared_from_this(), step = std::move(step)] {
    const Result<void> done = step(*self);
    if (done) return;
    self->process_->reactor().post([self, error = done.error()] { self->on_failure(error); });
  });
}

void AttachAttempt::on_failure(const Error& why) {
  bool follows = false;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    follows = attached_ && why.code() != Code::corrupt && why.code() != Code::peer_gone;
    if (follows && why.code() != Code::closed) ended_ = true;
  }
  if (!follows) return on_end(why);
  if (why.code() == Code::closed) return drop_parts();  // the Subscriber is gone; frames are not
  // This process cannot follow its publisher. What it holds it may read on; then it begins anew.
  base::report_failure("follow publisher", why);
  link_->leave(generation_);
  link_->set_fate(Fate::gone);
  drop_parts();
  if (const auto attacher = attacher_.lock()) attacher->ended(*this, why, true);
}

Result<void> AttachAttempt::check_offer(const wire::Offer& offer) const {
  if (offer.broadcast_bytes != sizeof(wire::Broadcast)) return inconsistent("broadcast_bytes");
  if (offer.private_bytes != sizeof(wire::Private)) return inconsistent("private_bytes");
  if (epoch_ != 0 && offer.epoch != epoch_) return inconsistent("epoch");
  if (offer.granted_depth > asked_depth_) return inconsistent("granted_depth");
  if (offer.granted_max_held == 0 || offer.granted_max_held > asked_max_held_) {
    return inconsistent("granted_max_held");
  }
  return {};
}

Result<void> AttachAttempt::map(const wire::Offer& offer, std::vector<os::UniqueFd> fds) {
  VRAMLINK_CHECK(check_offer(offer));
  VRAMLINK_CHECK(map_broadcast(offer, std::move(fds[0])));
  VRAMLINK_CHECK(map_private(offer, std::move(fds[1])));
  VRAMLINK_CHECK(map_payload(offer, std::move(fds[2])));
  offer_ = offer;
  VRAMLINK_STEP("attach.mapped_all");
  return connection_->send(wire::Mapped{{}, offer.generation});
}

// Each descriptor is checked before the registry is asked: what is mapped already was perhaps
// mapped as something else, and its seals may be another kind's.

Result<void> AttachAttempt::map_broadcast(const wire::Offer& offer, os::UniqueFd fd) {
  const os::SharedSegment segment = VRAMLINK_TRY(os::SharedSegment::adopt(
      std::move(fd), offer.broadcast_bytes, sizeof(wire::Broadcast), os::kFullSeals));
  parts_.broadcast = VRAMLINK_TRY(process_->imports().find_or_map(
      VRAMLINK_TRY(segment.key()), offer.broadcast_bytes, os::Access::read_only,
      [&](os::Access access) { return view_of(segment.map(access)); }));
  parts_.facts = VRAMLINK_TRY(wire::check_broadcast(
      parts_.broadcast.data, static_cast<std::size_t>(offer.broadcast_bytes)));
  if (parts_.facts.epoch != offer.epoch) return inconsistent("epoch");
  if (parts_.facts.generation != offer.generation) return inconsistent("generation");
  if (parts_.facts.slot_count != offer.slot_count) return inconsistent("slot_count");
  if (parts_.facts.slot_pitch != offer.slot_pitch) return inconsistent("slot_pitch");
  return {};
}

Result<void> AttachAttempt::map_private(const wire::Offer& offer, os::UniqueFd fd) {
  // Unsealed as yet: mapped, and not touched before finish() has seen the seals.
  private_segment_ = VRAMLINK_TRY(
      os::SharedSegment::adopt(std::move(fd), offer.private_bytes, sizeof(wire::Private), 0));
  // Sealed already, it is something else that this process maps for writing: a publisher's of ours.
  if ((VRAMLINK_TRY(private_segment_.seals()) & os::kSealFutureWrite) != 0) {
    return inconsistent("private seals");
  }
  parts_.words = VRAMLINK_TRY(process_->imports().find_or_map(
      VRAMLINK_TRY(private_segment_.key()), offer.private_bytes, os::Access::read_write,
      [&](os::Access access) { return view_of(private_segment_.map(access)); }));
  return {};
}

Result<void> AttachAttempt::map_payload(const wire::Offer& offer, os::UniqueFd fd) {
  if (offer.payload_bytes != offer.slot_pitch * offer.slot_count) {
    return inconsistent("payload_bytes");
  }
  backend::Backend* const backend = VRAMLINK_TRY(find_backend(offer));
  parts_.backend = backend;
  parts_.device = backend->device();
  if (backend->capabilities().streams) runtime::finish_before_drivers();
  if (offer.memory_kind == wire::MemoryKind::memfd) {
    os::SharedSegment segment = VRAMLINK_TRY(os::SharedSegment::adopt(
        std::move(fd), offer.payload_bytes, backend::kMemoryBytesMax, os::kFullSeals));
    fd = VRAMLINK_TRY(os::duplicate(segment.fd()));
  }
  // Without an identity nothing tells whether this process has it already: each import is a mapping
  // of its own.
  parts_.path = path_of(offer.memory_kind);
  if (parts_.path != MemoryPath::shared_memory) return import_from_gpu(offer, std::move(fd));
  parts_.payload = VRAMLINK_TRY(import_payload(*backend, offer, std::move(fd)));
  return {};
}

Result<runtime::SharedView> AttachAttempt::import_payload(backend::Backend& reader,
                                                          const wire::Offer& offer,
                                                          os::UniqueFd fd) const {
  if (!reader.capabilities().inode_is_identity) {
    return import_view(reader, std::move(fd), offer.payload_bytes, os::Access::read_only);
  }
  if (reader.device() != DeviceId{offer.device}) {
    return Error(Code::unsupported, kAttachToPublisher)
        .about(to_string(reader.device()))
        .because("the frames live on " + to_string(DeviceId{offer.device}) +
                 " and come by a legacy handle, which is opened on that GPU alone")
        .device(offer.device);
  }
  const os::SegmentKey key = VRAMLINK_TRY(os::key_of(fd.get()));
  return process_->imports().find_or_map(
      key, offer.payload_bytes, os::Access::read_only, [&](os::Access access) {
        return import_view(reader, std::move(fd), offer.payload_bytes, access);
      });
}

Result<void> AttachAttempt::import_from_gpu(const wire::Offer& offer, os::UniqueFd fd) {
  backend::Backend& reader = *parts_.backend;
  const DeviceId owner{offer.device};
  const CopyFrames copies = reader.device() == owner ? CopyFrames::never : asked_copies_;
  os::UniqueFd kept;
  if (copies != CopyFrames::never) kept = VRAMLINK_TRY(os::duplicate(fd.get()));
  Result<runtime::SharedView> view = import_payload(reader, offer, std::move(fd));
  bool must_copy = false;
  // Who reads with the owner's GPU and cannot was told why; no other way leads there.
  if (view.failed_with(Code::unsupported) && reader.device() != owner) {
    if (copies == CopyFrames::never) {
      return std::move(view).error().remedy(
          "subscribe on the publisher's GPU, or allow copies: SubscriberOptions::copy_frames, or "
          "--copy-frames of the command");
    }
    const Result<backend::Backend*> through = find_of_kind(owner, offer.memory_kind);
    if (!through) {
      return std::move(view).error().remedy(
          "make the publisher's GPU visible to this process (CUDA_VISIBLE_DEVICES): frames are "
          "copied from there");
    }
    must_copy = true;
    view = import_payload(**through, offer, std::move(kept));
  }
  parts_.payload = VRAMLINK_TRY(std::move(view));
  if (!must_copy && copies != CopyFrames::always) return {};
  const std::shared_ptr<Attacher> attacher = attacher_.lock();
  if (!attacher) return Error(Code::closed, kAttachToPublisher);
  parts_.copies = VRAMLINK_TRY(LocalCopies::make(
      reader, {offer.slot_pitch, offer.slot_count, parts_.facts.format.payload_bytes},
      attacher->parking()));
  return {};
}

Result<backend::Backend*> AttachAttempt::find_of_kind(const DeviceId& device,
                                                      wire::MemoryKind kind) const {
  const bool by_handle = kind == wire::MemoryKind::legacy_handle && !device.is_host();
  return by_handle ? process_->backends().find_legacy(device) : process_->backends().find(device);
}

Result<backend::Backend*> AttachAttempt::find_backend(const wire::Offer& offer) const {
  const DeviceId owner{offer.device};
  Result<backend::Backend*> found = find_of_kind(asked_device_.value_or(owner), offer.memory_kind);
  if (found.failed_with(Code::no_device) && !asked_device_) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return Error(Code::no_device, kAttachToPublisher)
        .about(name_)
        .because("its frames live on " + to_string(owner) + ", which this process does not see" +
                 (visible ? " (CUDA_VISIBLE_DEVICES is \"" + std::string(visible) + "\")" : ""))
        .remedy(
            "add it to CUDA_VISIBLE_DEVICES, or name a device that can read it in "
            "SubscriberOptions::device")
        .device(owner.uuid);
  }
  if (!found) return found;
  if ((*found)->capabilities().memory_kind == offer.memory_kind) return found;
  if (!asked_device_) return inconsistent("memory_kind");
  return Error(Code::unsupported, kAttachToPublisher)
      .about(name_)
      .because("its frames live on " + to_string(owner) + ", which " + to_string(*asked_device_) +
               " cannot map")
      .remedy("leave SubscriberOptions::device out")
      .device(owner.uuid);
}

Result<void> AttachAttempt::register_pages() {
  const std::shared_ptr<Attacher> attacher = attacher_.lock();
  if (!attacher) return Error(Code::closed, kAttachToPublisher);
  wire::Private& words = wire::private_at(parts_.words.data);
  const auto register_page = [&](auto& first) {
    return parts_.backend->register_words({reinterpret_cast<std::byte*>(&first), wire::kPageBytes});
  };
  StreamWork::Parts work;
  work.process = process_;
  work.backend = parts_.backend;
  work.broadcast = parts_.broadcast;
  work.words.view = parts_.words;
  work.parking = attacher->parking();
  work.slot_count = parts_.facts.slot_count;
  work.my_ready = VRAMLINK_TRY(register_page(words.my_ready));
  work.released = VRAMLINK_TRY(register_page(words.released));
  work.words.registered = {work.my_ready, work.released};
  // A receipt on any thread may be its last owner, in a forked child too.
  parts_.stream_work =
      runtime::ends_on_janitor(process_, std::make_unique<StreamWork>(std::move(work)));
  VRAMLINK_STEP("attach.pages_registered");
  return {};
}

Result<void> AttachAttempt::check_go(const wire::Go& go) {
  parts_.granted = VRAMLINK_TRY(wire::check_private(parts_.words.data, sizeof(wire::Private)));
  if (parts_.granted.epoch != offer_.epoch) return inconsistent("private epoch");
  if (parts_.granted.generation != offer_.generation) return inconsistent("private generation");
  if (parts_.granted.depth != offer_.granted_depth) return inconsistent("depth");
  if (parts_.granted.depth >= parts_.facts.slot_count) return inconsistent("depth");
  if (parts_.granted.max_held != offer_.granted_max_held) return inconsistent("max_held");
  if (parts_.granted.first_ticket != go.first_ticket) return inconsistent("first_ticket");
  // Pairs with publish()'s store. Before a generation's first frame `newest` is 0.
  const std::uint64_t newest = wire::sequence_of(
      wire::broadcast_at(parts_.broadcast.data).newest.load(std::memory_order_acquire));
  const std::uint64_t before = parts_.facts.first_sequence - 1;
  if (go.cursor >= wire::kSequenceEnd || go.cursor < before) return inconsistent("cursor");
  // Of a later generation, frames of the one before may have come between its making and its turn.
  if (offer_.generation == 1 && go.cursor > std::max(newest, before)) return inconsistent("cursor");
  // The session begins where it was checked to begin, whatever the word says by now.
  parts_.first_cursor = go.cursor;
  return {};
}

Result<void> AttachAttempt::finish(const wire::Go& go) {
  if (offer_.generation == 0 || go.generation != offer_.generation) return inconsistent("go");
  VRAMLINK_CHECK(private_segment_.verify_seals(os::kFullSeals));
  VRAMLINK_STEP("attach.seals_seen");
  VRAMLINK_CHECK(check_go(go));
  if (asked_stream_order_ && parts_.backend->capabilities().streams) {
    VRAMLINK_CHECK(register_pages());
  }
  parts_.process = process_;
  parts_.link = link_;
  epoch_ = offer_.epoch;
  offer_.generation = 0;  // a second GO is out of place
  private_segment_ = os::SharedSegment();
  std::shared_ptr<SubscriberSession> session;
  {
    const std::lock_guard lock(mutex_);
    if (left_) return {};
    parts_.connection_owner = shared_from_this();
    session = SubscriberSession::make(std::exchange(parts_, {}));
    attached_ = true;
    if (ended_) session->set_fate(Fate::gone);
  }
  process_->reactor().unwatch(timer_);
  if (const auto core = core_.lock()) core->attached(std::move(session));
  return {};
}

void AttachAttempt::on_end(const Error& why) {
  bool was_attached = false;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    was_attached = attached_;
    // Of a publisher that ended, GO may be under way here, and its frames are to be read.
    left_ = !attached_ && why.code() != Code::peer_gone;
  }
  if (was_attached) {
    link_->set_fate(Fate::gone);
    connection_->close();
    drop_parts();  // of a generation that was about to follow
  } else {
    hang_up();
  }
  if (const auto attacher = attacher_.lock()) attacher->ended(*this, why, was_attached);
}

void AttachAttempt::expire() {
  {
    const std::lock_guard lock(mutex_);
    if (attached_ || ended_) return;
  }
  on_end(Error(Code::timed_out, kAttachToPublisher));
}

}  // namespace vramlink::inline v0::channel
