// See readable.hpp.
#include "os/readable.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace vramlink::os {

bool is_readable(const std::byte* data, std::size_t size_bytes) noexcept {
  if (size_bytes == 0) return true;
  std::array<std::byte, 2> bytes{};
  const iovec local{bytes.data(), bytes.size()};
  // The kernel copies, so what cannot be read is an error and no signal.
  const std::array<iovec, 2> ends{
      {{const_cast<std::byte*>(data), 1}, {const_cast<std::byte*>(data) + size_bytes - 1, 1}}};
  const ssize_t count = ::process_vm_readv(::getpid(), &local, 1, ends.data(), ends.size(), 0);
  if (count < 0) return errno != EFAULT;
  return count == 2;
}

}  // namespace vramlink::os
