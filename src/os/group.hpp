// Groups of users: which one is meant, and whether this process is in it.
#pragma once

#include <sys/types.h>

#include <string>

#include <vramlink/result.hpp>

namespace vramlink::os {

struct Group {
  gid_t gid = 0;
  std::string text;  ///< as the caller named it

  /// "group video (gid 44)", or "group 44" for one that was named by its number.
  [[nodiscard]] std::string description() const;
};

/// The group of a name, or of a number in decimal digits, which needs no name: containers know few.
/// `invalid_argument` if there is none, and for the group that stands for all those which our user
/// namespace does not know.
[[nodiscard]] Result<Group> find_group(const std::string& text);

/// Whether it is among the effective and supplementary groups of the calling thread.
[[nodiscard]] bool is_own_group(gid_t gid);

}  // namespace vramlink::os
