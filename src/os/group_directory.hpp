// The runtime directory as its users share it: one user's own, or open to a group.
//
//   of a user    mode 0700, its files 0600: the owner's processes meet there
//   of a group   mode 2750, group G; sockets 0660, lock files 0640: the owner publishes, members
//                of G read. Nobody but the owner writes there.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include <vramlink/diagnose.hpp>
#include <vramlink/result.hpp>

#include "os/group.hpp"

namespace vramlink::os {

inline constexpr mode_t kGroupDirectoryMode = 02750;
inline constexpr mode_t kGroupSocketMode = 0660;
inline constexpr mode_t kGroupLockMode = 0640;

/// Who may meet in a runtime directory.
struct DirectoryUsers {
  uid_t owner = 0;               ///< who publishes
  std::optional<gid_t> group{};  ///< whose members may read; nothing: the owner's processes alone
};

/// Where names live, and for whom.
struct RuntimeDirectory {
  std::string path;
  std::optional<Group> group{};  ///< nothing: this user's own

  /// Who may meet there, as it is now. Of a group's directory: `not_found` as long as no publisher
  /// has made it; `permission_denied`, with owner, group, mode and a remedy, unless it is a
  /// directory (not a link) of mode 2750 and that group, and this process belongs to its owner or
  /// to the group. A user's own was looked at when it was found.
  [[nodiscard]] Result<DirectoryUsers> users() const;
  /// The same for a publisher, which makes a group's directory where it is missing, and must be its
  /// owner.
  [[nodiscard]] Result<DirectoryUsers> users_for_publisher() const;
};

/// The path for a group, without a look at what is there. The first that applies:
/// `chosen_by_caller` if not empty, $VRAMLINK_RUNTIME_DIR, /run/vramlink-group-GID if it exists,
/// /tmp/vramlink-group-GID. A user's session directories are closed to others.
[[nodiscard]] DirectoryChoice choose_group_directory(const std::string& chosen_by_caller,
                                                     const Group& group);

/// The runtime directory for a group, or for this user if `group` is empty. Makes a user's own
/// (find_runtime_directory()); a group's may be missing, as its publisher makes it. Codes: those of
/// find_runtime_directory(), find_group() and RuntimeDirectory::users().
[[nodiscard]] Result<RuntimeDirectory> open_runtime_directory(const std::string& chosen_by_caller,
                                                              const std::string& group);

/// Whether a socket in a group's directory is its owner's and open to that group and nobody else.
/// Codes: not_found, permission_denied.
[[nodiscard]] Result<void> check_group_socket(const std::string& path, const DirectoryUsers& users);

}  // namespace vramlink::os
