// See resize_pair.hpp.
#include "harness/resize_pair.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <utility>

#include <vramlink/vramlink.hpp>

#include "harness/process.hpp"
#include "harness/shared_results.hpp"

namespace vramlink::bench {
namespace {

using namespace std::chrono_literals;

enum Kind : std::size_t { raw_memory, resize, gap, kKinds };

/// What a frame's flags tell the subscriber.
enum class Next : std::uint32_t { nothing, floor, change, end };

constexpr useconds_t kSettleUs = 3'000;  // until the other side sleeps, and old memory is gone

struct Shared {
  SharedResults<kKinds> results;
  std::atomic<std::uint64_t> taken{0};  // the last sequence that the subscriber has
};

[[noreturn]] void stop(const char* what) {
  std::cerr << what << " failed: " << std::strerror(errno) << '\n';
  std::exit(1);
}

/// A byte, and a descriptor if there is one.
void send_to(int socket, int fd) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  if (::sendmsg(socket, &message, MSG_NOSIGNAL) != 1) stop("sendmsg");
}

/// The descriptor that came with the byte, or -1.
int receive_from(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) stop("recvmsg");
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (header != nullptr) std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

int publisher_main(Shared& shared, const std::string& directory, const ResizeShape& shape,
                   MemoryFloor& floor, int socket, int samples) {
  pin(cpu_of_core(0));
  Runtime runtime = Runtime::open({.directory = directory}).value();
  const Format format = Format::bytes(shape.frame_bytes).value();
  Publisher publisher = Publisher::open(runtime, "bench", format,
                                        {.slot_count = shape.slot_count, .device = floor.device()})
                            .value();
  publisher.wait_for_subscribers(1, 60s).value();
  const StreamView complete = StreamView::already_complete();
  const auto publish = [&](Next next) {
    WritableFrame frame = publisher.claim(complete, 10s).value();
    return publisher
        .publish(std::move(frame), complete, {.flags = static_cast<std::uint32_t>(next)})
        .value()
        .sequence();
  };
  const auto publish_and_settle = [&](Next next) {
    const std::uint64_t sequence = publish(next);
    while (shared.taken.load(std::memory_order_acquire) < sequence) ::usleep(100);
    ::usleep(kSettleUs);
  };
  const std::uint64_t pitch = (shape.frame_bytes + 4095) / 4096 * 4096;
  const auto bytes = static_cast<std::size_t>(pitch) * shape.slot_count;
  for (int i = 0; i < samples; ++i) {
    publish_and_settle(Next::floor);
    shared.results.add(raw_memory, time_of([&] {
                         const int fd = floor.make(bytes);
                         send_to(socket, fd);
                         static_cast<void>(receive_from(socket));
                         ::close(fd);
                       }));
    floor.end();
    publish_and_settle(Next::nothing);
    publish(Next::change);
    shared.results.add(resize, time_of([&] { publisher.resize(format, 10s).value(); }));
    publish_and_settle(Next::nothing);
  }
  publish_and_settle(Next::end);
  return 0;
}

int subscriber_main(Shared& shared, const std::string& directory, const ResizeShape& shape,
                    MemoryFloor& floor, int socket) {
  pin(cpu_of_core(1));
  Runtime runtime = Runtime::open({.directory = directory}).value();
  Subscriber subscriber =
      Subscriber::open(runtime, "bench", 60s, {.policy = ReceivePolicy::queue(2)}).value();
  const std::uint64_t pitch = (shape.frame_bytes + 4095) / 4096 * 4096;
  const auto bytes = static_cast<std::size_t>(pitch) * shape.slot_count;
  std::int64_t last_ns = 0;
  std::uint64_t generation = 1;
  while (true) {
    Next next = Next::nothing;
    {
      const Frame frame = subscriber.receive(60s).value();
      const std::int64_t now_ns = monotonic_ns();
      if (frame.generation() != generation) shared.results.add(gap, now_ns - last_ns);
      generation = frame.generation();
      last_ns = now_ns;
      next = static_cast<Next>(frame.flags());
      shared.taken.store(frame.sequence(), std::memory_order_release);
    }
    if (next == Next::end) return 0;
    if (next != Next::floor) continue;
    const int fd = receive_from(socket);
    floor.map(fd, bytes);
    send_to(socket, -1);
    ::close(fd);
    floor.end();
  }
}

}  // namespace

void measure_resize(Report& report, const ResizeShape& shape,
                    const std::function<std::unique_ptr<MemoryFloor>()>& make_floor, bool smoke) {
  auto& shared = shared_object<Shared>();
  const PrivateDirectory directory;
  std::array<int, 2> sockets{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    stop("socketpair");
  }
  const int samples = smoke ? 3 : 300;
  Child publisher([&] {
    return publisher_main(shared, directory.path(), shape, *make_floor(), sockets[0], samples);
  });
  Child subscriber(
      [&] { return subscriber_main(shared, directory.path(), shape, *make_floor(), sockets[1]); });
  ::close(sockets[0]);
  ::close(sockets[1]);
  if (const int code = publisher.wait(); code != 0) std::exit(code);
  if (const int code = subscriber.wait(); code != 0) std::exit(code);
  const std::string of = ", " + shape.name;
  report.add("floor: memory made, mapped by both" + of, shared.results.samples(raw_memory));
  report.add("resize(), 1 subscriber" + of, shared.results.samples(resize),
             "floor: memory made, mapped by both" + of);
  report.add("last old to first new frame" + of, shared.results.samples(gap),
             "floor: memory made, mapped by both" + of);
}

}  // namespace vramlink::bench
