// A message of a socket that carries one descriptor. No libc: the device process sends them too.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>

#include "sys.hpp"

namespace vramlink::simcuda::sys {

class DescriptorMessage {
 public:
  DescriptorMessage(void* data, std::size_t size_bytes) noexcept : bytes_{data, size_bytes} {
    message_.msg_name = nullptr;
    message_.msg_namelen = 0;
    message_.msg_iov = &bytes_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_;
    message_.msg_controllen = sizeof control_;
    message_.msg_flags = 0;
  }
  DescriptorMessage(const DescriptorMessage&) = delete;
  DescriptorMessage& operator=(const DescriptorMessage&) = delete;
  ~DescriptorMessage() = default;

  /// `address` may be null: of a connected socket.
  long send(int socket, int fd, sockaddr_un* address, int flags) noexcept {
    message_.msg_name = address;
    message_.msg_namelen = address == nullptr ? 0 : sizeof *address;
    cmsghdr* header = CMSG_FIRSTHDR(&message_);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    *reinterpret_cast<int*>(CMSG_DATA(header)) = fd;
    return call(SYS_sendmsg, socket, arg(&message_), flags | MSG_NOSIGNAL);
  }
  long receive(int socket, int flags) noexcept {
    return call(SYS_recvmsg, socket, arg(&message_), flags | MSG_CMSG_CLOEXEC);
  }
  /// That came with what was received, or -1.
  [[nodiscard]] int descriptor() const noexcept {
    if (message_.msg_controllen < CMSG_LEN(sizeof(int))) return -1;
    const auto* header = reinterpret_cast<const cmsghdr*>(control_);
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) return -1;
    return *reinterpret_cast<const int*>(CMSG_DATA(header));
  }

 private:
  iovec bytes_;
  alignas(cmsghdr) std::byte control_[CMSG_SPACE(sizeof(int))];
  msghdr message_;
};

/// "/proc/PID/fd/FD": the file of another process's descriptor.
class DescriptorPath {
 public:
  DescriptorPath(long pid, long fd) noexcept {
    put("/proc/");
    put(pid);
    put("/fd/");
    put(fd);
    text_[length_] = 0;
  }
  [[nodiscard]] const char* text() const noexcept { return text_; }

 private:
  void put(const char* text) noexcept {
    for (; *text != 0; ++text) text_[length_++] = *text;
  }
  void put(long number) noexcept {
    long scale = 1;
    while (number / scale >= 10) scale *= 10;
    for (; scale > 0; scale /= 10) text_[length_++] = static_cast<char>('0' + number / scale % 10);
  }

  char text_[64];
  std::size_t length_ = 0;
};

}  // namespace vramlink::simcuda::sys
