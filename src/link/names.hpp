// Names in the runtime directory: where their sockets and locks are, who owns them, which are
// similar.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <vramlink/result.hpp>

#include "os/group_directory.hpp"
#include "os/process.hpp"

namespace vramlink::link {

/// Codes: invalid_argument, saying which character or length is not allowed.
[[nodiscard]] Result<void> check_name(std::string_view name);
/// `<directory>/<name>.sock`; of a long name, which would not fit a socket's path, a hash.
[[nodiscard]] std::string socket_path(const std::string& directory, std::string_view name);
/// `<directory>/<name>.lock`.
[[nodiscard]] std::string lock_path(const std::string& directory, std::string_view name);
/// The file name that socket_path() ends with: what a directory watch reports.
[[nodiscard]] std::string socket_file(std::string_view name);
/// The living owner that a name's lock file names; nothing if there is none. Of an owner in another
/// pid namespace the lock tells: it ends with its process. Codes: those of reading the file, but
/// not_found and corrupt.
[[nodiscard]] Result<std::optional<os::ProcessIdentity>> living_owner(const std::string& lock_path);
/// Names whose owner is alive (or in another pid namespace), sorted.
/// Codes: os, permission_denied, resource_exhausted.
[[nodiscard]] Result<std::vector<std::string>> list_names(const std::string& directory);
/// The same, of a directory that its users are checked of first. One that is yet to be made has
/// none; names that its owner keeps from the group are left out.
[[nodiscard]] Result<std::vector<std::string>> list_names(const os::RuntimeDirectory& directory);
/// not_found for `name`, with what is there instead: similar names, or that nothing is published.
[[nodiscard]] Error unknown_name(const char* operation, const std::string& directory,
                                 std::string_view name);

}  // namespace vramlink::link
