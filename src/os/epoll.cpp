// os: epoll with nanosecond deadlines, or the milliseconds of older kernels.
#include "os/epoll.hpp"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>

#include "base/try.hpp"
#include "os/errno.hpp"
#include "os/timespec.hpp"

namespace vramlink::os {
namespace {

constexpr long kEpollPwait2Call = 441;  // the same on every architecture; Linux 5.11
constexpr std::int64_t kNsPerMs = 1'000'000;

constinit std::atomic<bool> pwait2_missing{false};

Result<void> control(int epoll, int operation, int fd, std::uint32_t events, std::uint64_t token) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll, operation, fd, &event) == -1) return from_errno("epoll_ctl");
  return {};
}

/// epoll_wait() with nanoseconds from now, or with `forever`.
long wait_once(int epoll, std::span<epoll_event> events, bool forever, std::int64_t left_ns) {
  if (events.empty()) {  // the kernel's answer, which may not be asked for with a null pointer
    errno = EINVAL;
    return -1;
  }
  const int count_max =
      static_cast<int>(std::min<std::size_t>(events.size(), std::numeric_limits<int>::max()));
  if (!pwait2_missing.load(std::memory_order_relaxed)) {
    const timespec left = to_timespec(left_ns);
    const long count = ::syscall(kEpollPwait2Call, epoll, events.data(), count_max,
                                 forever ? nullptr : &left, nullptr, 0);
    // Sandboxes answer EPERM to calls they do not know.
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    pwait2_missing.store(true, std::memory_order_relaxed);
  }
  // Rounded up, so that a wait does not end before its deadline and spin through the last ms.
  const std::int64_t left_ms = left_ns / kNsPerMs + (left_ns % kNsPerMs != 0 ? 1 : 0);
  const int limit_ms =
      static_cast<int>(std::min<std::int64_t>(left_ms, std::numeric_limits<int>::max()));
  return ::epoll_wait(epoll, events.data(), count_max, forever ? -1 : limit_ms);
}

}  // namespace

Result<Epoll> Epoll::create() {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd) return from_errno("epoll_create1");
  return Epoll(std::move(fd));
}

Result<void> Epoll::add(int fd, std::uint32_t events, std::uint64_t token) const {
  return control(fd_.get(), EPOLL_CTL_ADD, fd, events, token);
}

Result<void> Epoll::modify(int fd, std::uint32_t events, std::uint64_t token) const {
  return control(fd_.get(), EPOLL_CTL_MOD, fd, events, token);
}

Result<void> Epoll::remove(int fd) const { return control(fd_.get(), EPOLL_CTL_DEL, fd, 0, 0); }

Result<std::size_t> Epoll::wait(std::span<epoll_event> events, Deadline deadline) const {
  for (;;) {
    const std::int64_t now_ns = monotonic_ns();  // the difference to INT64_MIN would overflow
    const std::int64_t left_ns =
        deadline.is_never() ? 0 : std::max(deadline.time_ns(), now_ns) - now_ns;
    const long count = wait_once(fd_.get(), events, deadline.is_never(), left_ns);
    if (count > 0) return static_cast<std::size_t>(count);
    if (count < 0 && errno == EINTR) return std::size_t{0};
    if (count < 0) return from_errno("epoll_wait");
    if (deadline.has_passed()) return std::size_t{0};
  }
}

void pretend_epoll_pwait2_missing(bool missing) noexcept {
  pwait2_missing.store(missing, std::memory_order_relaxed);
}

Result<void> wait_readable(int fd, Deadline deadline) {
  const Epoll epoll = VRAMLINK_TRY(Epoll::create());
  VRAMLINK_CHECK(epoll.add(fd, EPOLLIN, 0));
  std::array<epoll_event, 1> ready;
  while (VRAMLINK_TRY(epoll.wait(ready, deadline)) == 0) {
    if (deadline.has_passed()) return Error(Code::timed_out, "wait for descriptor");
  }
  return {};
}

}  // namespace vramlink::os
