// Hears of files that appear in a directory: how a subscriber notices that its publisher is back.
#pragma once

#include <string>
#include <vector>

#include <vramlink/result.hpp>

#include "os/fd.hpp"

namespace vramlink::os {

/// Watches one directory, not what lies below it. Thread-safety: one thread at a time.
class DirectoryWatch {
 public:
  /// Owns nothing; only assignment and destruction are useful.
  DirectoryWatch() noexcept = default;

  /// Starts watching: whatever appears after this returns is reported. `not_found`;
  /// `resource_exhausted` names the limit of the kernel that was hit; `os` if `path` is no
  /// directory.
  [[nodiscard]] static Result<DirectoryWatch> open(const std::string& path);

  /// Appends the names that were created or moved in since the last call, oldest first, duplicates
  /// included. True if names may be missing: the queue overflowed, or the directory was removed or
  /// moved. Look at the directory yourself then, and in the latter case open() again. Never blocks.
  [[nodiscard]] bool drain(std::vector<std::string>& names);

  /// Borrowed; readable when drain() has something to say.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

 private:
  explicit DirectoryWatch(UniqueFd fd) noexcept : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace vramlink::os
