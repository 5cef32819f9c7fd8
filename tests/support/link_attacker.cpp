#include "support/link_attacker.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include <vramlink/version.hpp>

#include "link/names.hpp"
#include "link/peer.hpp"
#include "os/epoll.hpp"
#include "wire/format_block.hpp"

namespace vramlink::test {
namespace {

constexpr std::chrono::seconds kWatchdog{60};

os::UniqueFd descriptor_of(const os::SharedSegment& segment) {
  return os::duplicate(segment.fd()).value();
}

}  // namespace

RawPeer::RawPeer(const std::string& directory, const std::string& name) {
  const Deadline watchdog = Deadline::after(kWatchdog);
  auto socket = os::Socket::connect(link::socket_path(directory, name));
  while (socket.failed_with(Code::full) && !watchdog.has_passed()) {
    socket = os::Socket::connect(link::socket_path(directory, name));
  }
  EXPECT_TRUE(socket) << to_string(socket.error());
  if (socket) socket_ = *std::move(socket);
}

wire::MessageType RawPeer::Message::type() const {
  wire::MessageHeader header{};
  if (bytes.size() >= sizeof(header)) std::memcpy(&header, bytes.data(), sizeof(header));
  return header.type;
}

bool RawPeer::send_bytes(std::span<const std::byte> bytes, std::span<const int> fds) const {
  std::vector<std::byte> control(CMSG_SPACE(std::max<std::size_t>(fds.size_bytes(), 1)));
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  return ::sendmsg(socket_.fd(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

std::optional<RawPeer::Message> RawPeer::next() const {
  std::array<std::byte, wire::kMessageBytesMax> buffer;
  const auto readable = os::wait_readable(socket_.fd(), Deadline::after(kWatchdog));
  EXPECT_TRUE(readable) << "the watchdog ended the wait for a message";
  if (!readable) return std::nullopt;
  auto received = socket_.receive(buffer);
  if (!received) return std::nullopt;
  return Message{
      {buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(received->size_bytes)},
      std::move(received->fds)};
}

std::optional<Code> RawPeer::refusal() const {
  std::optional<Code> code;
  while (const auto message = next()) {
    const auto refused = message->as<wire::Refused>();
    if (refused) code = static_cast<Code>(refused->code);
  }
  return code;
}

void RawPeer::wait_for_end() const {
  while (next()) {
  }
}

wire::Hello honest_hello(const std::string& name) {
  wire::Hello hello{};
  hello.role = wire::Role::subscriber;
  hello.process = link::own_facts().value();
  hello.max_held = 1;
  wire::set_name(hello, name);
  return hello;
}

RawSubscriber::RawSubscriber(const std::string& directory, const std::string& name,
                             std::uint32_t max_held, std::uint32_t queue_depth)
    : peer(directory, name) {
  wire::Hello hello = honest_hello(name);
  hello.max_held = max_held;
  hello.queue_depth = queue_depth;
  EXPECT_TRUE(peer.send(hello));
  auto message = peer.next();
  EXPECT_TRUE(message && message->type() == wire::MessageType::offer) << "no OFFER came";
  if (!message) return;
  offered = *std::move(message);
  offer = offered.as<wire::Offer>().value();
}

void RawSubscriber::attach() {
  const auto segment = os::SharedSegment::adopt(os::duplicate(private_fd()).value(),
                                                wire::kPrivateBytes, wire::kPrivateBytes, 0);
  mapping = segment.value().map(os::Access::read_write).value();
  EXPECT_TRUE(peer.send(wire::Mapped{{}, offer.generation}));
  const auto message = peer.next();
  EXPECT_TRUE(message && message->type() == wire::MessageType::go) << "no GO came";
}

Offering::Offering() {
  const auto broadcast_segment =
      os::SharedSegment::create("fake-broadcast", sizeof(wire::Broadcast)).value();
  const auto private_segment =
      os::SharedSegment::create("fake-private", sizeof(wire::Private)).value();
  const auto payload_segment = os::SharedSegment::create("fake-payload", kPitch * kSlots).value();
  shared = broadcast_segment.map(os::Access::read_write).value();
  own = private_segment.map(os::Access::read_write).value();
  payload = payload_segment.map(os::Access::read_write).value();
  broadcast_fd = descriptor_of(broadcast_segment);
  private_fd = descriptor_of(private_segment);
  payload_fd = descriptor_of(payload_segment);

  wire::Broadcast& head = broadcast();
  head.magic = wire::kBroadcastMagic;
  head.wire = kWireVersion;
  head.bytes = sizeof(wire::Broadcast);
  head.epoch = 77;
  head.generation = 1;
  head.slot_count = kSlots;
  head.slot_pitch = kPitch;
  head.first_sequence = 1;
  wire::encode_format(Format::bytes(kPitch).value(), head.format);
  wire::Private& granted = words();
  granted.magic = wire::kPrivateMagic;
  granted.wire = kWireVersion;
  granted.bytes = sizeof(wire::Private);
  granted.epoch = 77;
  granted.generation = 1;
  granted.first_ticket = 1;
  granted.max_held = 2;
  granted.depth = 0;

  message.epoch = 77;
  message.generation = 1;
  message.broadcast_bytes = sizeof(wire::Broadcast);
  message.private_bytes = sizeof(wire::Private);
  message.payload_bytes = kPitch * kSlots;
  message.slot_pitch = kPitch;
  message.slot_count = kSlots;
  message.memory_kind = wire::MemoryKind::memfd;
  message.granted_max_held = 2;
  message.publisher = link::own_facts().value();
  go = wire::Go{{}, 1, 1, 0};
}

std::vector<int> Offering::fds() const {
  return {broadcast_fd.get(), private_fd.get(), payload_fd.get()};
}

void Offering::publish(std::uint64_t sequence, std::uint32_t slot_index) const {
  wire::SlotHeader& slot = broadcast().slot[slot_index];
  slot.ticket.store(sequence);
  slot.user_bytes.store(8);
  broadcast().ready[slot_index].ticket.store(sequence);
  slot.tag.store(sequence);
  broadcast().recent[sequence % wire::kSlotCountMax].store(wire::pack_newest(sequence, slot_index));
  broadcast().newest.store(wire::pack_newest(sequence, slot_index));
}

void seal(int fd, unsigned seals) {
  if (seals == 0) return;
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, seals), 0) << std::strerror(errno);
}

FakePublisher::FakePublisher(const std::string& directory, const std::string& name, Script script)
    : lock_(os::LockFile::acquire(link::lock_path(directory, name), name,
                                  {link::socket_path(directory, name)})
                .value()),
      listener_(os::Listener::bind(link::socket_path(directory, name), 0600).value()),
      stop_(os::event_fd().value()),
      script_(std::move(script)),
      thread_([this] { run(); }) {}

FakePublisher::~FakePublisher() {
  os::signal_event(stop_.get());
  thread_.join();
}

void FakePublisher::run() {
  while (true) {
    std::array<pollfd, 2> ready{pollfd{stop_.get(), POLLIN, 0}, pollfd{listener_.fd(), POLLIN, 0}};
    ::poll(ready.data(), ready.size(), -1);
    if (ready[0].revents != 0) return;
    auto socket = listener_.accept();
    if (!socket) continue;
    RawPeer peer(*std::move(socket));
    script_(peer);
  }
}

bool offer_all(RawPeer& peer, Offering& offering, const std::function<void(Offering&)>& before_go) {
  const auto hello = peer.next();
  if (!hello) return false;
  seal(offering.broadcast_fd.get(), offering.broadcast_seals);
  seal(offering.payload_fd.get(), offering.payload_seals);
  peer.send(offering.message, offering.fds());
  const auto mapped = peer.next();
  if (!mapped || mapped->type() != wire::MessageType::mapped) return false;
  if (before_go) before_go(offering);
  seal(offering.private_fd.get(), offering.private_seals);
  return peer.send(offering.go);
}

}  // namespace vramlink::test
