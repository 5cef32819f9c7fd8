// Looking at channels from outside: the observer's role.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include <vramlink/inspect.hpp>

#include "base/checked.hpp"
#include "base/try.hpp"
#include "channel/attach_error.hpp"
#include "channel/memory_path.hpp"
#include "link/names.hpp"
#include "link/peer.hpp"
#include "os/fork_guard.hpp"
#include "os/lock_file.hpp"
#include "os/process.hpp"
#include "os/process_view.hpp"
#include "os/shared_segment.hpp"
#include "os/socket.hpp"
#include "runtime/runtime_state.hpp"
#include "wire/codec.hpp"
#include "wire/layout_v1.hpp"
#include "wire/segment_check.hpp"

namespace vramlink::inline v0 {
namespace {

/// Waits for one message of type Body. Codes: timed_out, peer_gone, corrupt, incompatible; whatever
/// a REFUSED may say.
template <class Body>
Result<Body> receive(const os::Socket& socket, std::string_view name, Deadline deadline,
                     std::vector<os::UniqueFd>* fds = nullptr) {
  std::array<std::byte, wire::kMessageBytesMax> buffer;
  VRAMLINK_CHECK(os::wait_readable(socket.fd(), deadline));
  os::Socket::Received received = VRAMLINK_TRY(socket.receive(buffer));
  const std::span<const std::byte> bytes(buffer.data(), received.size_bytes);
  if (auto refused = wire::decode<wire::Refused>(bytes, received.fds.size())) {
    return channel::refusal("inspect channel", name, *refused);
  }
  const Body body = VRAMLINK_TRY(wire::decode<Body>(bytes, received.fds.size()));
  if (fds) *fds = std::move(received.fds);
  return body;
}

Result<void> send_hello(const os::Socket& socket, std::string_view name) {
  wire::Hello hello{};
  hello.role = wire::Role::observer;
  hello.process = VRAMLINK_TRY(link::own_facts());
  wire::set_name(hello, name);
  return socket.send(wire::encode(hello));
}

/// One slot's sequence and time, or nothing while it is being written.
std::optional<std::pair<std::uint64_t, std::int64_t>> stamp(const wire::SlotHeader& slot) {
  // The tag before and after, each word with acquire: pairs with the publisher's release stores.
  const std::uint64_t before = slot.tag.load(std::memory_order_acquire);
  const std::uint64_t publish_ns = slot.publish_ns.load(std::memory_order_acquire);
  if (before == 0 || slot.tag.load(std::memory_order_acquire) != before) return std::nullopt;
  return std::pair(before, static_cast<std::int64_t>(publish_ns));
}

void read_times(const wire::Broadcast& broadcast, std::uint32_t slot_count, ChannelInfo& info) {
  std::pair<std::uint64_t, std::int64_t> first{~std::uint64_t{0}, 0};
  std::pair<std::uint64_t, std::int64_t> last{0, 0};
  for (std::uint32_t i = 0; i < slot_count; ++i) {
    const auto seen = stamp(broadcast.slot[i]);
    if (!seen) continue;
    first = std::min(first, *seen);
    last = std::max(last, *seen);
  }
  if (last.first == 0) return;
  info.newest_sequence = last.first;
  info.newest_age_ns =
      std::max<std::int64_t>(0, base::saturating_subtract(monotonic_ns(), last.second));
  if (last.first > first.first && last.second > first.second) {
    info.frames_per_second =
        static_cast<double>(last.first - first.first) * 1e9 /
        static_cast<double>(base::saturating_subtract(last.second, first.second));
  }
}

void copy(const wire::Status& status, PublisherStatistics& statistics) {
  statistics.published = status.published;
  statistics.published_bytes = status.published_bytes;
  statistics.refused_full = status.refused_full;
  statistics.timed_out = status.timed_out;
  statistics.abandoned = status.abandoned;
  statistics.subscribers_ever = status.subscribers_ever;
  statistics.subscribers_died = status.subscribers_died;
  statistics.subscribers_revoked = status.subscribers_revoked;
  statistics.subscribers_evicted = status.subscribers_evicted;
  statistics.replacements = status.replacements;
  statistics.growths = status.growths;
  statistics.legacy_imports = status.legacy_imports;
  statistics.slot_count_max = status.slot_count_max;
  statistics.slots_lost = status.slots_lost;
  for (std::uint32_t i = 0; i < status.subscriber_count; ++i) {
    const wire::SubscriberStatus& entry = status.subscribers[i];
    statistics.subscribers.push_back({entry.pid, entry.depth, entry.held, entry.lag,
                                      entry.blocked_claims, entry.received, entry.skipped,
                                      entry.lost, (entry.flags & wire::kStatusRevoked) != 0});
  }
}

/// Nobody owns the name; who did, where a dead owner's file is left.
Error no_owner(const char* operation, const std::string& directory, std::string_view name) {
  Error error = link::unknown_name(operation, directory, name);
  const Result<os::LockFile::Owner> former =
      os::LockFile::read_owner(link::lock_path(directory, name));
  if (!former || os::life_of(former->identity) == os::Life::alive) return error;
  std::string reason = error.facts()->reason + ": process " + std::to_string(former->identity.pid) +
                       ", which did, has ended";
  return std::move(error).because(std::move(reason));
}

/// The program of a process; "" if it is in another pid namespace, where its pid is another's here.
std::string program_of(const os::ProcessIdentity& identity) {
  const Result<os::ProcessIdentity> self = os::identify_self();
  if (!self || self->pid_namespace != identity.pid_namespace) return {};
  return os::process_name(identity.pid);
}

/// What the publisher itself says. Codes: timed_out, peer_gone, and those of its answers.
Result<void> ask(const Runtime& runtime, std::string_view name, Deadline deadline,
                 ChannelInfo& info) {
  const os::Socket socket =
      VRAMLINK_TRY(link::connect_to_publisher(runtime.state()->directory(), name));
  VRAMLINK_CHECK(send_hello(socket, name));
  std::vector<os::UniqueFd> fds;
  const wire::Offer offer = VRAMLINK_TRY(receive<wire::Offer>(socket, name, deadline, &fds));
  const os::SharedSegment segment = VRAMLINK_TRY(os::SharedSegment::adopt(
      std::move(fds.front()), sizeof(wire::Broadcast), sizeof(wire::Broadcast), os::kFullSeals));
  const os::Mapping mapping = VRAMLINK_TRY(segment.map(os::Access::read_only));
  const std::byte* const base = mapping.data();
  const wire::BroadcastFacts facts =
      VRAMLINK_TRY(wire::check_broadcast(base, mapping.size_bytes()));
  info.device = DeviceId{offer.device};
  info.format = facts.format;
  info.slot_count = facts.slot_count;
  read_times(wire::broadcast_at(base), facts.slot_count, info);
  wire::Query query{};
  query.what = wire::QueryKind::status;
  VRAMLINK_CHECK(socket.send(wire::encode(query)));
  copy(VRAMLINK_TRY(receive<wire::Status>(socket, name, deadline)), info.statistics);
  info.statistics.resizes = facts.generation - 1;
  info.statistics.slot_count = facts.slot_count;
  info.statistics.path = channel::path_of(offer.memory_kind);
  return {};
}

}  // namespace

Result<std::vector<std::string>> list_channels(const Runtime& runtime) {
  VRAMLINK_CHECK(os::require_not_forked("list channels"));
  return link::list_names(runtime.state()->directory());
}

Result<ChannelInfo> inspect_channel(const Runtime& runtime, std::string_view name,
                                    Deadline deadline) {
  VRAMLINK_CHECK(os::require_not_forked("inspect channel"));
  VRAMLINK_CHECK(link::check_name(name));
  const std::optional<os::ProcessIdentity> owner =
      VRAMLINK_TRY(link::living_owner(link::lock_path(runtime.directory(), name)));
  if (!owner) return no_owner("inspect channel", runtime.directory(), name);
  ChannelInfo info;
  info.name = std::string(name);
  info.owner_pid = owner->pid;
  info.owner_name = program_of(*owner);
  const Result<void> asked = ask(runtime, name, deadline, info);
  info.responsive = asked.has_value();
  if (asked) return info;
  info.trouble = to_string(asked.error());
  info.trouble_error = asked.error();
  return info;
}

Result<ProcessInfo> inspect_owner(const Runtime& runtime, std::string_view name) {
  VRAMLINK_CHECK(os::require_not_forked("inspect owner"));
  VRAMLINK_CHECK(link::check_name(name));
  const std::optional<os::ProcessIdentity> owner =
      VRAMLINK_TRY(link::living_owner(link::lock_path(runtime.directory(), name)));
  if (!owner) return no_owner("inspect owner", runtime.directory(), name);
  const os::ProcessIdentity self = VRAMLINK_TRY(os::identify_self());
  const bool same_namespace = self.pid_namespace == owner->pid_namespace;
  ProcessInfo hidden;
  if (!same_namespace) hidden.other_namespaces.emplace_back("pid");
  std::int32_t pid = same_namespace ? owner->pid : 0;
  // Who listens, as the kernel translates it for us. One that cannot be reached is known by its
  // lock alone.
  const Result<os::Socket> socket =
      os::Socket::connect(link::socket_path(runtime.directory(), name));
  if (socket.failed_with(Code::resource_exhausted)) return socket.error();
  if (socket) {
    const os::PeerCredentials credentials = VRAMLINK_TRY(socket->peer());
    hidden.uid = credentials.uid;
    if (pid == 0) pid = credentials.pid;
  }
  if (pid == 0) return hidden;
  Result<ProcessInfo> info = os::view_process(pid);
  if (info.failed_with(Code::peer_gone)) {  // a moment ago
    return no_owner("inspect owner", runtime.directory(), name);
  }
  const bool is_hidden =  // by the option hidepid of /proc
      info.failed_with(Code::permission_denied) || info.failed_with(Code::not_found);
  if (is_hidden) {
    hidden.pid = pid;
    return hidden;
  }
  if (info && hidden.uid >= 0) info->uid = hidden.uid;
  return info;
}

}  // namespace vramlink::inline v0
