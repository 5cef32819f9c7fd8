// Who owns a name: a file with a lock, and the owner written into it.
//
// | handle   | closed by                                                     | depends on |
// |----------|---------------------------------------------------------------|------------|
// | LockFile | unlink of its path while it is its own, unlock, close         | nothing    |
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include <vramlink/result.hpp>

#include "os/fd.hpp"
#include "os/process.hpp"

namespace vramlink::os {

/// Owns a name for as long as it lives. The lock is an flock(), so it ends with the process. It
/// also belongs to forked children that outlive their parent: then the owner that the file names is
/// dead, and acquire() replaces the file.
///
/// Invariant: a file whose content names a living owner is never unlinked by another process;
/// content changes from a dead owner to a new one, and a dead owner's file goes away, only under an
/// flock() of the directory. Where others may open the directory they could keep that lock, so
/// there it is one of a file `.guard`, which is the owner's alone. Thread-safety: one thread at a
/// time.
class LockFile {
 public:
  static constexpr mode_t kOwnMode = 0600;

  struct Owner {
    std::string name;
    ProcessIdentity identity;
  };

  /// Owns nothing; only assignment and destruction are useful.
  LockFile() noexcept = default;
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&& other) noexcept;
  LockFile(const LockFile&) = delete;
  LockFile& operator=(const LockFile&) = delete;
  /// Gives the name up. In a forked child: closes the descriptor only, which leaves the lock alone.
  ~LockFile();

  /// Takes the lock at `path` for `name` and unlinks what a former owner left at `owned_paths`. The
  /// file has `mode` when the owner is written in it, and is the user's alone before: whoever opens
  /// it could lock it, too.
  /// `already_exists` if a living process owns it, with that pid and its program's name;
  /// `permission_denied`; `corrupt` if `path` is not a regular file; `invalid_argument` for a name
  /// that does not fit a line of 255 bytes; `timed_out` if others keep the directory locked;
  /// `wrong_state` in a forked child. Blocks for about 1 s at most.
  [[nodiscard]] static Result<LockFile> acquire(const std::string& path, const std::string& name,
                                                const std::vector<std::string>& owned_paths,
                                                mode_t mode = kOwnMode);

  /// Gives the name up now.
  void release() noexcept;

  /// What the file says, whether or not that process lives. `not_found`; `corrupt` for other
  /// content.
  [[nodiscard]] static Result<Owner> read_owner(const std::string& path);

  /// Whether somebody holds the lock. `not_found` if there is no file. Never blocks; takes the
  /// lock, shared, for an instant.
  [[nodiscard]] static Result<bool> is_locked(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

 private:
  LockFile(UniqueFd fd, std::string path) noexcept : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
};

}  // namespace vramlink::os
