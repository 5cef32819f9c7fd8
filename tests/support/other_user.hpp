// A process that becomes another user, or moves to a place of its own, for what is shared with
// others only within a user or a place.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <vector>

namespace vramlink::test {

/// The ids of nobody, and no groups. For a child, and needs root.
inline bool become_nobody() {
  constexpr unsigned kNobody = 65534;
  return ::setgroups(0, nullptr) == 0 && ::setresgid(kNobody, kNobody, kNobody) == 0 &&
         ::setresuid(kNobody, kNobody, kNobody) == 0;
}

/// Numbers that need no entry in the system's lists.
struct UserIds {
  uid_t user = 0;
  gid_t group = 0;
  std::vector<gid_t> more_groups{};
};

/// That user, as if its own program had been started: /proc is its own again, and the child ends
/// with its parent, which both end with the change. For a child, and needs root.
inline bool become(const UserIds& ids) {
  return ::setgroups(ids.more_groups.size(), ids.more_groups.data()) == 0 &&
         ::setresgid(ids.group, ids.group, ids.group) == 0 &&
         ::setresuid(ids.user, ids.user, ids.user) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0 &&
         ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
}

/// New namespaces, with the user's ids as before in one of users. For a child that has one thread;
/// false where the system does not permit it.
inline bool enter_namespaces(int kinds) {
  const auto user = static_cast<unsigned>(::geteuid());
  if (::unshare(kinds) != 0) return false;
  if ((kinds & CLONE_NEWUSER) == 0) return true;
  char map[64];
  const int length = ::snprintf(map, sizeof map, "%u %u 1\n", user, user);
  const int fd = ::open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
  const bool is_mapped = ::write(fd, map, static_cast<std::size_t>(length)) == length;
  ::close(fd);
  return is_mapped;
}

/// What is mounted over `target` in the process's own namespace of mounts, nobody else sees.
inline bool mount_apart(const char* kind, const char* target, const char* options = nullptr) {
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount(kind, target, kind, 0, options) == 0;
}

/// Namespaces of users and mounts of its own, with a /dev/shm that nobody else sees. As
/// enter_namespaces().
inline bool enter_own_namespaces() {
  return enter_namespaces(CLONE_NEWUSER | CLONE_NEWNS) && mount_apart("tmpfs", "/dev/shm");
}

}  // namespace vramlink::test
