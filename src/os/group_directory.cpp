// os: a runtime directory that a group shares.
#include "os/group_directory.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/try.hpp"
#include "os/errno.hpp"
#include "os/fd.hpp"
#include "os/runtime_directory.hpp"

namespace vramlink::os {
namespace {

constexpr const char* kFindGroupDirectory = "find runtime directory";
constexpr const char* kMakeGroupDirectory = "make runtime directory";

Error not_a_member(const Group& group, const char* operation, const std::string& path) {
  return Error(Code::permission_denied, operation)
      .about(path)
      .because("this process, of uid " + std::to_string(::geteuid()) + ", is not in " +
               group.description())
      .remedy("`usermod -aG " + group.text +
              " USER` as root, then log in anew; `id` shows the groups of a process");
}

Result<DirectoryUsers> check_group_directory(const std::string& path, const Group& group) {
  const struct stat status = VRAMLINK_TRY(stat_directory(path));
  if (status.st_gid != group.gid || (status.st_mode & 07777U) != kGroupDirectoryMode) {
    return Error(Code::permission_denied, kFindGroupDirectory)
        .about(path)
        .because("it belongs to uid " + std::to_string(status.st_uid) + " and group " +
                 std::to_string(status.st_gid) + " and has mode " + octal_mode(status.st_mode) +
                 ", expected " + group.description() + " and mode " +
                 octal_mode(kGroupDirectoryMode))
        .remedy("if it is meant for that group, let its owner run `chgrp " + group.text + " " +
                path + " && chmod " + octal_mode(kGroupDirectoryMode) + " " + path +
                "`; else set VRAMLINK_RUNTIME_DIR to another for both sides");
  }
  if (status.st_uid != ::geteuid() && !is_own_group(group.gid)) {
    return not_a_member(group, kFindGroupDirectory, path);
  }
  return DirectoryUsers{status.st_uid, group.gid};
}

/// Gives a directory that nobody else can enter as yet to the group.
Result<void> open_to_group(const std::string& fresh, const std::string& path, const Group& group) {
  const UniqueFd fd(::open(fresh.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return from_errno("open").about(fresh);
  if (::fchown(fd.get(), static_cast<uid_t>(-1), group.gid) == -1) {
    if (errno == EPERM) return not_a_member(group, kMakeGroupDirectory, path);
    return from_errno("fchown").about(path);
  }
  // After it was given away: that takes the bit which hands the group down to what is made inside.
  if (::fchmod(fd.get(), kGroupDirectoryMode) == -1) return from_errno("fchmod").about(path);
  // As a whole, and never in place of another: nobody sees it half made.
  const int renamed =
      ::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE);
  if (renamed == -1) return from_errno("rename").about(path);
  return {};
}

Result<void> make_group_directory(const std::string& path, const Group& group) {
  std::string fresh = path + ".XXXXXX";
  if (::mkdtemp(fresh.data()) == nullptr) {
    return from_errno(kMakeGroupDirectory)
        .about(path)
        .remedy("set VRAMLINK_RUNTIME_DIR to a path in a folder that is there");
  }
  Result<void> opened = open_to_group(fresh, path, group);
  if (opened) return {};
  ::rmdir(fresh.c_str());
  if (opened.failed_with(Code::already_exists)) return {};  // another publisher's, a moment ago
  return opened;
}

}  // namespace

DirectoryChoice choose_group_directory(const std::string& chosen_by_caller, const Group& group) {
  if (auto chosen = explicit_directory(chosen_by_caller)) return *std::move(chosen);
  const std::string name = "vramlink-group-" + std::to_string(group.gid);
  struct stat status {};
  std::string run = "/run/" + name;
  if (::lstat(run.c_str(), &status) == 0) return {std::move(run), DirectoryRule::run_group};
  return {"/tmp/" + name, DirectoryRule::tmp_group};
}

Result<RuntimeDirectory> open_runtime_directory(const std::string& chosen_by_caller,
                                                const std::string& group) {
  if (group.empty())
    return RuntimeDirectory{VRAMLINK_TRY(find_runtime_directory(chosen_by_caller))};
  RuntimeDirectory directory;
  directory.group = VRAMLINK_TRY(find_group(group));
  directory.path = choose_group_directory(chosen_by_caller, *directory.group).path;
  VRAMLINK_CHECK(check_directory_path(directory.path));
  const Result<DirectoryUsers> users = directory.users();
  if (users) return directory;
  if (!users.failed_with(Code::not_found)) return users.error();
  // Root gives a directory to any group, and reads none that it is not in.
  if (::geteuid() == 0 || is_own_group(directory.group->gid)) return directory;
  return not_a_member(*directory.group, kFindGroupDirectory, directory.path);
}

Result<DirectoryUsers> RuntimeDirectory::users() const {
  if (group) return check_group_directory(path, *group);
  return DirectoryUsers{::geteuid(), {}};
}

Result<DirectoryUsers> RuntimeDirectory::users_for_publisher() const {
  Result<DirectoryUsers> found = users();
  if (found.failed_with(Code::not_found)) {
    VRAMLINK_CHECK(make_group_directory(path, *group));
    found = users();
  }
  if (!found || found->owner == ::geteuid()) return found;
  return Error(Code::permission_denied, "open publisher")
      .about(path)
      .because("it belongs to uid " + std::to_string(found->owner) +
               ", and this process runs as uid " + std::to_string(::geteuid()) +
               "; only the owner publishes in a directory of a group")
      .remedy("set VRAMLINK_RUNTIME_DIR to another directory, for its subscribers too");
}

Result<void> check_group_socket(const std::string& path, const DirectoryUsers& users) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == -1) return from_errno("lstat").about(path);
  const bool right = S_ISSOCK(status.st_mode) && status.st_uid == users.owner &&
                     status.st_gid == users.group && (status.st_mode & 07777U) == kGroupSocketMode;
  if (right) return {};
  return Error(Code::permission_denied, "check socket")
      .about(path)
      .because("it belongs to uid " + std::to_string(status.st_uid) + " and group " +
               std::to_string(status.st_gid) + " and has mode " + octal_mode(status.st_mode) +
               ", expected a socket of uid " + std::to_string(users.owner) + " and group " +
               std::to_string(users.group.value_or(0)) + " with mode " +
               octal_mode(kGroupSocketMode))
      .remedy("open its publisher with the group, too");
}

}  // namespace vramlink::os
