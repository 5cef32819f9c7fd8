// os: inotify.
#include "os/directory_watch.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "os/errno.hpp"

namespace vramlink::os {
namespace {

constexpr std::uint32_t kAppeared = IN_CREATE | IN_MOVED_TO;
constexpr std::uint32_t kDirectoryGone = IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED;

}  // namespace

Result<DirectoryWatch> DirectoryWatch::open(const std::string& path) {
  UniqueFd fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd && errno == EMFILE) {
    return from_errno("inotify_init1")
        .remedy("raise fs.inotify.max_user_instances, or RLIMIT_NOFILE (ulimit -n)");
  }
  if (!fd) return from_errno("inotify_init1");
  const std::uint32_t events = kAppeared | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
  if (::inotify_add_watch(fd.get(), path.c_str(), events) == -1) {
    const int error_number = errno;
    Error error = from_errno_at(path, "inotify_add_watch", error_number);
    if (error_number != ENOSPC) return error;
    return std::move(error).remedy("raise fs.inotify.max_user_watches");
  }
  return DirectoryWatch(std::move(fd));
}

bool DirectoryWatch::drain(std::vector<std::string>& names) {
  bool may_miss_names = false;
  alignas(inotify_event) std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t size_bytes = ::read(fd_.get(), buffer.data(), buffer.size());
    if (size_bytes == -1 && errno == EINTR) continue;
    if (size_bytes <= 0) return may_miss_names;  // EAGAIN: all was read
    for (std::size_t at = 0; at < static_cast<std::size_t>(size_bytes);) {
      inotify_event event;
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      if ((event.mask & (kDirectoryGone | IN_Q_OVERFLOW)) != 0) may_miss_names = true;
      // The kernel pads names with zero bytes.
      if ((event.mask & kAppeared) != 0) names.emplace_back(buffer.data() + at + sizeof(event));
      at += sizeof(event) + event.len;
    }
  }
}

}  // namespace vramlink::os
