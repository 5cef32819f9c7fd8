// The directory in which peers find one another by name.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <string>

#include <vramlink/diagnose.hpp>
#include <vramlink/result.hpp>

namespace vramlink::os {

/// Leaves 35 bytes of a socket's path for "/", a name of 25 bytes, ".sock" and ".new".
inline constexpr std::size_t kRuntimeDirectoryMaxBytes = 72;

/// What a caller or $VRAMLINK_RUNTIME_DIR names, without slashes at its end; nothing if neither
/// does. Reads the environment: not while another thread changes it.
[[nodiscard]] std::optional<DirectoryChoice> explicit_directory(
    const std::string& chosen_by_caller);

/// The path of a user's runtime directory, without a slash at its end and without a look at what is
/// there. The first that applies: `chosen_by_caller` if not empty, $VRAMLINK_RUNTIME_DIR,
/// $XDG_RUNTIME_DIR/vramlink, /run/user/UID/vramlink if /run/user/UID exists, /tmp/vramlink-UID.
/// Reads the environment: not while another thread changes it.
[[nodiscard]] DirectoryChoice choose_runtime_directory(const std::string& chosen_by_caller);

/// `invalid_argument` for a relative or too long path.
[[nodiscard]] Result<void> check_directory_path(const std::string& path);

/// What a directory is. `permission_denied` for a link and for what is none; `not_found`.
[[nodiscard]] Result<struct stat> stat_directory(const std::string& path);

/// "2750".
[[nodiscard]] std::string octal_mode(mode_t mode);

/// The absolute path of a user's runtime directory. A choice that fails is an error, never a reason
/// to go on to the next one: both peers must arrive at the same place.
///
/// Creates the last level with mode 0700. `permission_denied` with owner, mode and a remedy unless
/// it is a directory (not a link) of our effective user that group and others cannot write to;
/// `invalid_argument` for a relative or too long path; `not_found` if the level above is missing.
[[nodiscard]] Result<std::string> find_runtime_directory(const std::string& chosen_by_caller);

}  // namespace vramlink::os
