// os: taking a name, also from the dead.
#include "os/lock_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "base/try.hpp"
#include "os/errno.hpp"
#include "os/fork_guard.hpp"
#include "os/lock_text.hpp"
#include "os/small_file.hpp"
#include "os/threads.hpp"

namespace vramlink::os {
namespace {

constexpr const char* kLockName = "lock name";
constexpr std::chrono::seconds kAcquireLimit{1};
/// A lock that is held this long, and found held this often, belongs to somebody, also if it is not
/// known to whom: a holder writes its text at once, and is_locked() lets go at once. Time alone
/// would not do: on a busy host it passes in a few looks.
constexpr std::chrono::milliseconds kGlanceLimit{100};
constexpr int kGlanceCountMax = 50;
constexpr std::chrono::milliseconds kRetryInterval{1};

Result<UniqueFd> open_lock(const std::string& path, int flags) {
  UniqueFd fd(
      ::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, LockFile::kOwnMode));
  if (!fd && errno != ELOOP && errno != EISDIR && errno != ENXIO) {
    return from_errno_at(path, "open");
  }
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) == -1 || !S_ISREG(status.st_mode)) {
    return Error(Code::corrupt, kLockName).about(path).because("it is not a regular file");
  }
  return fd;
}

/// True if the lock was free and is ours now; false if somebody has it.
Result<bool> try_lock(int fd, int kind) {
  for (;;) {
    if (::flock(fd, kind | LOCK_NB) == 0) return true;
    if (errno == EWOULDBLOCK) return false;
    if (errno != EINTR) return from_errno("flock");
  }
}

bool is_file_at(int fd, const std::string& path) noexcept {
  struct stat open_file {};
  struct stat named_file {};
  return ::fstat(fd, &open_file) == 0 && ::lstat(path.c_str(), &named_file) == 0 &&
         open_file.st_dev == named_file.st_dev && open_file.st_ino == named_file.st_ino;
}

std::string directory_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// What is locked for a directory: itself, or what nobody but its owner can open.
Result<UniqueFd> open_guard(const std::string& directory) {
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return from_errno_at(directory, "open");
  struct stat status {};
  if (::fstat(fd.get(), &status) == -1) return from_errno_at(directory, "fstat");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) == 0) return fd;
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  UniqueFd guard(::openat(fd.get(), ".guard", kFlags, LockFile::kOwnMode));
  if (!guard) return from_errno_at(directory + "/.guard", "open");
  return guard;
}

/// Locks the directory of `path`; the descriptor's death unlocks it.
Result<UniqueFd> lock_directory(const std::string& path, Deadline deadline) {
  const std::string directory = directory_of(path);
  UniqueFd fd = VRAMLINK_TRY(open_guard(directory));
  while (!VRAMLINK_TRY(try_lock(fd.get(), LOCK_EX))) {
    if (deadline.has_passed()) {
      return Error(Code::timed_out, kLockName)
          .about(directory)
          .because("another process keeps the directory locked");
    }
    nap_until(Deadline::after(kRetryInterval));
  }
  return fd;
}

Result<std::optional<LockFile::Owner>> owner_in(int fd) {
  return parse_lock_text(VRAMLINK_TRY(read_small_file(fd, kLockTextMaxBytes + 1)));
}

Result<void> write_text(int fd, const std::string& path, const std::string& text) {
  if (::ftruncate(fd, 0) == -1) return from_errno_at(path, "ftruncate");
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t count = ::pwrite(fd, text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (count == -1 && errno == EINTR) continue;
    if (count == -1) return from_errno_at(path, "pwrite");
    at += static_cast<std::size_t>(count);
  }
  return {};
}

/// Writes the owner into a file whose lock we hold. False if it is not the file at `path` any more.
///
/// A file with a dead owner's text may be unlinked by others who hold the directory (replace_dead),
/// so there looking at the path and writing are one step. An empty file is unlinked by nobody else.
Result<bool> write_owner(int fd, const std::string& path, const std::string& text,
                         Deadline deadline) {
  struct stat status {};
  if (::fstat(fd, &status) == -1) return from_errno_at(path, "fstat");
  UniqueFd directory;
  if (status.st_size != 0) directory = VRAMLINK_TRY(lock_directory(path, deadline));
  if (!is_file_at(fd, path)) return false;
  Result<void> written = write_text(fd, path, text);
  if (written) return true;
  ::unlink(path.c_str());
  return std::move(written).error();
}

/// Unlinks a file whose lock is held although its owner is dead: by a forked child of the owner.
/// Its text is judged again under the directory's lock; changes nothing if it changed.
Result<void> replace_dead(const std::string& path, Deadline deadline) {
  const UniqueFd directory = VRAMLINK_TRY(lock_directory(path, deadline));
  auto fd = open_lock(path, O_RDONLY);
  if (fd.failed_with(Code::not_found)) return {};
  if (!fd) return std::move(fd).error();
  const bool is_free = VRAMLINK_TRY(try_lock(fd->get(), LOCK_EX));
  const auto owner = VRAMLINK_TRY(owner_in(fd->get()));
  if (is_free || !owner || life_of(owner->identity) != Life::dead) return {};
  if (::unlink(path.c_str()) == -1 && errno != ENOENT) return from_errno_at(path, "unlink");
  return {};
}

Error owned_by(const LockFile::Owner& owner, const ProcessIdentity& self) {
  const std::int32_t pid = owner.identity.pid;
  Error error = Error(Code::already_exists, kLockName)
                    .about(owner.name)
                    .remedy("choose another name, or end that process");
  if (owner.identity.pid_namespace != self.pid_namespace) {
    return std::move(error).because("process " + std::to_string(pid) +
                                    " of another pid namespace owns it");
  }
  return std::move(error)
      .because("process " + std::to_string(pid) + " (" + process_name(pid) + ") owns it")
      .peer(pid);
}

Error owned_by_unknown(const std::string& name) {
  return Error(Code::already_exists, kLockName)
      .about(name)
      .because("another process holds its lock and has not written who it is");
}

struct AcquireLimits {
  Deadline all = Deadline::after(kAcquireLimit);
  Deadline glance = Deadline::after(kGlanceLimit);
  int look_count = 0;

  /// Whether a holder of whom nothing is known may still be one that lets go at once.
  [[nodiscard]] bool may_be_a_glance() const noexcept {
    return look_count < kGlanceCountMax || !glance.has_passed();
  }
  [[nodiscard]] bool are_over() const noexcept {
    return look_count > kGlanceCountMax && all.has_passed();
  }
};

/// What to do about a lock that another holds: an error, or nothing if it is worth another try.
Result<void> face_holder(int fd, const std::string& path, const std::string& name,
                         const ProcessIdentity& self, const AcquireLimits& limits) {
  const auto owner = VRAMLINK_TRY(owner_in(fd));
  if (!owner) {
    // The holder has not written its text yet.
    if (!limits.may_be_a_glance()) return owned_by_unknown(name);
    return {};
  }
  const Life life = life_of(owner->identity);
  if (life == Life::dead) return replace_dead(path, limits.all);
  if (life == Life::unknown && limits.may_be_a_glance()) return {};
  return owned_by(*owner, self);
}

Result<void> unlink_all(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (::unlink(path.c_str()) == -1 && errno != ENOENT) return from_errno_at(path, "unlink");
  }
  return {};
}

}  // namespace

LockFile::LockFile(LockFile&& other) noexcept
    : fd_(std::move(other.fd_)), path_(std::exchange(other.path_, {})) {}

LockFile& LockFile::operator=(LockFile&& other) noexcept {
  if (this == &other) return *this;
  release();
  fd_ = std::move(other.fd_);
  path_ = std::exchange(other.path_, {});
  return *this;
}

LockFile::~LockFile() { release(); }

Result<LockFile> LockFile::acquire(const std::string& path, const std::string& name,
                                   const std::vector<std::string>& owned_paths, mode_t mode) {
  VRAMLINK_CHECK(require_not_forked(kLockName));
  const ProcessIdentity self = VRAMLINK_TRY(identify_self());
  const std::string text = VRAMLINK_TRY(format_lock_text({name, self}));
  AcquireLimits limits;
  for (;;) {
    ++limits.look_count;
    UniqueFd fd = VRAMLINK_TRY(open_lock(path, O_RDWR | O_CREAT));
    if (VRAMLINK_TRY(try_lock(fd.get(), LOCK_EX))) {
      if (VRAMLINK_TRY(write_owner(fd.get(), path, text, limits.all))) {
        LockFile lock(std::move(fd), path);
        if (::fchmod(lock.fd_.get(), mode) == -1) return from_errno("fchmod").about(path);
        VRAMLINK_CHECK(unlink_all(owned_paths));
        return lock;
      }
    } else {
      VRAMLINK_CHECK(face_holder(fd.get(), path, name, self, limits));
      nap_until(Deadline::after(kRetryInterval));
    }
    if (limits.are_over()) {
      return Error(Code::timed_out, kLockName)
          .about(path)
          .because("others keep replacing the file");
    }
  }
}

void LockFile::release() noexcept {
  if (!fd_) return;
  if (!in_forked_child()) {
    // Unlink before unlock: who locks the old file afterwards sees that it has no name any more.
    if (is_file_at(fd_.get(), path_) && ::unlink(path_.c_str()) == -1 && errno != ENOENT) {
      base::report_failure("unlink", from_errno_at(path_, "unlink"));
    }
    ::flock(fd_.get(), LOCK_UN);  // closing alone would leave the lock to a forked child
  }
  fd_.reset();
  path_.clear();
}

Result<LockFile::Owner> LockFile::read_owner(const std::string& path) {
  const UniqueFd fd = VRAMLINK_TRY(open_lock(path, O_RDONLY));
  auto owner = VRAMLINK_TRY(owner_in(fd.get()));
  if (owner) return *std::move(owner);
  return Error(Code::corrupt, "read lock file").about(path).because("it names no owner");
}

Result<bool> LockFile::is_locked(const std::string& path) {
  const UniqueFd fd = VRAMLINK_TRY(open_lock(path, O_RDONLY));
  return !VRAMLINK_TRY(try_lock(fd.get(), LOCK_SH));
}

}  // namespace vramlink::os
