// os: a listening socket that appears complete, and goes away with its owner.
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/log.hpp"
#include "base/steps.hpp"
#include "base/try.hpp"
#include "os/errno.hpp"
#include "os/fork_guard.hpp"
#include "os/socket.hpp"
#include "os/socket_address.hpp"

namespace vramlink::os {
namespace {

constexpr int kBacklog = 128;

/// Binds `fd` to `path`, which must not exist, with exactly `mode`, and listens.
Result<struct stat> bind_and_listen(int fd, const std::string& path, mode_t mode) {
  // Until chmod() the path has this mode less the umask, never more.
  if (::fchmod(fd, mode) == -1) return from_errno_at(path, "fchmod");
  if (detail::bind_to(fd, path) == -1) {
    return from_errno_at(path, "bind");
  }
  struct stat status {};
  const char* failed = nullptr;
  if (::chmod(path.c_str(), mode) == -1) {
    failed = "chmod";
  } else if (::listen(fd, kBacklog) == -1) {
    failed = "listen";
  } else if (::lstat(path.c_str(), &status) == -1) {
    failed = "lstat";
  }
  if (failed == nullptr) return status;
  Error error = from_errno_at(path, failed);
  ::unlink(path.c_str());
  return error;
}

}  // namespace

Listener::Listener(Listener&& other) noexcept
    : fd_(std::move(other.fd_)),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      inode_(other.inode_) {}

Listener& Listener::operator=(Listener&& other) noexcept {
  if (this == &other) return *this;
  remove_path();
  fd_ = std::move(other.fd_);
  path_ = std::exchange(other.path_, {});
  device_ = other.device_;
  inode_ = other.inode_;
  return *this;
}

Listener::~Listener() { remove_path(); }

Result<Listener> Listener::bind(const std::string& path, mode_t mode) {
  VRAMLINK_CHECK(require_not_forked("bind"));
  VRAMLINK_CHECK(detail::check_path_length("bind", path, kSocketPathMaxBytes - kBindSuffixBytes));
  const std::string new_path = path + ".new";
  Listener listener;
  listener.fd_ = VRAMLINK_TRY(detail::open_unix_socket());
  // Left by an owner of this name that died in between.
  if (::unlink(new_path.c_str()) == -1 && errno != ENOENT) {
    return from_errno_at(new_path, "unlink");
  }
  const struct stat status = VRAMLINK_TRY(bind_and_listen(listener.fd(), new_path, mode));
  VRAMLINK_STEP("open.bound");
  if (std::rename(new_path.c_str(), path.c_str()) == -1) {
    Error error = from_errno_at(path, "rename");
    ::unlink(new_path.c_str());
    return error;
  }
  listener.path_ = path;
  listener.device_ = status.st_dev;
  listener.inode_ = status.st_ino;
  return listener;
}

Result<Socket> Listener::accept() const {
  for (;;) {
    UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) return Socket(std::move(fd));
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN) return Error(Code::empty, "accept");
    return from_errno("accept");
  }
}

void Listener::remove_path() noexcept {
  if (path_.empty() || in_forked_child()) return;
  struct stat status {};
  const bool is_own =
      ::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
  if (is_own && ::unlink(path_.c_str()) == -1 && errno != ENOENT) {
    base::report_failure("unlink", from_errno_at(path_, "unlink"));
  }
  path_.clear();
}

}  // namespace vramlink::os
