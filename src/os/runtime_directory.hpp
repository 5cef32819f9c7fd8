// The directory in which peers find one another by name.
#pragma once

#include <cstddef>
#include <string>

#include <vramlink/diagnose.hpp>
#include <vramlink/result.hpp>

namespace vramlink::os {

/// Leaves 35 bytes of a socket's path for "/", a name of 25 bytes, ".sock" and ".new".
inline constexpr std::size_t kRuntimeDirectoryMaxBytes = 72;

/// The path of the runtime directory, without a slash at its end and without a look at what is
/// there. The first that applies: `chosen_by_caller` if not empty, $VRAMLINK_RUNTIME_DIR,
/// $XDG_RUNTIME_DIR/vramlink, /run/user/UID/vramlink if /run/user/UID exists, /tmp/vramlink-UID.
/// Reads the environment: not while another thread changes it.
[[nodiscard]] DirectoryChoice choose_runtime_directory(const std::string& chosen_by_caller);

/// The absolute path of the runtime directory. A choice that fails is an error, never a reason to
/// go on to the next one: both peers must arrive at the same place.
///
/// Creates the last level with mode 0700. `permission_denied` with owner, mode and a remedy unless
/// it is a directory (not a link) of our effective user that group and others cannot write to;
/// `invalid_argument` for a relative or too long path; `not_found` if the level above is missing.
[[nodiscard]] Result<std::string> find_runtime_directory(const std::string& chosen_by_caller);

}  // namespace vramlink::os
