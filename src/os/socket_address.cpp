// os: socket paths as addresses.
#include "os/socket_address.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <iterator>

#include "os/errno.hpp"
#include "os/socket.hpp"

namespace vramlink::os::detail {
namespace {

static_assert(sizeof(sockaddr_un::sun_path) == kSocketPathMaxBytes + 1);

sockaddr_un to_address(const std::string& path) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  return address;
}

}  // namespace

Result<void> check_path_length(const char* operation, const std::string& path,
                               std::size_t size_max_bytes) {
  if (path.empty() || path.find('\0') != std::string::npos) {
    return Error(Code::invalid_argument, operation).because("the path is empty or has a zero byte");
  }
  if (path.size() > size_max_bytes) {
    return Error(Code::invalid_argument, operation)
        .about(path)
        .because("the path has " + std::to_string(path.size()) + " bytes, a socket's may have " +
                 std::to_string(size_max_bytes))
        .remedy("set VRAMLINK_RUNTIME_DIR to a directory with a shorter path")
        .numbers(path.size(), size_max_bytes);
  }
  return {};
}

int connect_to(int fd, const std::string& path) noexcept {
  const sockaddr_un address = to_address(path);
  return ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

int bind_to(int fd, const std::string& path) noexcept {
  const sockaddr_un address = to_address(path);
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

Result<UniqueFd> open_unix_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return from_errno("socket");
  return fd;
}

}  // namespace vramlink::os::detail
