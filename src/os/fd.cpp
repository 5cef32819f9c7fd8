// os: descriptors and eventfds.
#include "os/fd.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

#include "os/errno.hpp"

namespace vramlink::os {

void FdTraits::close(int fd) noexcept {
  // Linux has closed the descriptor whatever close() returns; trying again could close another's.
  ::close(fd);
}

Result<UniqueFd> duplicate(int fd) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return from_errno("fcntl(F_DUPFD_CLOEXEC)");
  return copy;
}

Result<UniqueFd> event_fd() {
  UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event) return from_errno("eventfd");
  return event;
}

void signal_event(int fd) noexcept {
  const std::uint64_t one = 1;
  // EAGAIN means that the count is at its maximum, and so the descriptor is readable.
  [[maybe_unused]] const auto written = ::write(fd, &one, sizeof(one));
}

void drain_event(int fd) noexcept {
  std::uint64_t count = 0;
  // EAGAIN means that it was drained already.
  [[maybe_unused]] const auto taken = ::read(fd, &count, sizeof(count));
}

}  // namespace vramlink::os
