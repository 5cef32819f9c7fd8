// A process that becomes another user, or moves to a place of its own, for what is shared with
// others only within a user or a place.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

namespace vramlink::test {

/// The ids of nobody, and no groups. For a child, and needs root.
inline bool become_nobody() {
  constexpr unsigned kNobody = 65534;
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

/// Namespaces of users and mounts of its own, with the user's ids as before and a /dev/shm that
/// nobody else sees. For a child that has one thread; false where the system does not permit it.
inline bool enter_own_namespaces() {
  const auto user = static_cast<unsigned>(::geteuid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  char map[64];
  const int length = ::snprintf(map, sizeof map, "%u %u 1\n", user, user);
  const int fd = ::open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
  const bool is_mapped = ::write(fd, map, static_cast<std::size_t>(length)) == length;
  ::close(fd);
  return is_mapped && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) == 0;
}

}  // namespace vramlink::test
