// os: where the runtime directory is, and whether it can be trusted.
#include "os/runtime_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/try.hpp"
#include "os/errno.hpp"
#include "os/fd.hpp"

namespace vramlink::os {
namespace {

constexpr const char* kFindDirectory = "find runtime directory";
constexpr const char* kRemedy =
    "set VRAMLINK_RUNTIME_DIR to a directory of your own that only you can write to";

/// Empty if unset.
std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// A slash at the end would make the kernel follow a link.
DirectoryChoice without_slashes(DirectoryChoice choice) {
  while (choice.path.size() > 1 && choice.path.back() == '/') choice.path.pop_back();
  return choice;
}

DirectoryChoice choose_for_user() {
  // The XDG base directory specification: a relative path counts as unset.
  const std::string session = environment("XDG_RUNTIME_DIR");
  if (!session.empty() && session.front() == '/') {
    return {session + "/vramlink", DirectoryRule::xdg_runtime_dir};
  }
  const std::string uid = std::to_string(::geteuid());
  const std::string user = "/run/user/" + uid;
  struct stat status {};
  if (::stat(user.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return {user + "/vramlink", DirectoryRule::run_user};
  }
  return {"/tmp/vramlink-" + uid, DirectoryRule::tmp};
}

Result<void> check_directory(const std::string& path) {
  const struct stat status = VRAMLINK_TRY(stat_directory(path));
  const bool others_may_write = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (status.st_uid == ::geteuid() && !others_may_write) return {};
  return Error(Code::permission_denied, kFindDirectory)
      .about(path)
      .because("it belongs to uid " + std::to_string(status.st_uid) + " and has mode " +
               octal_mode(status.st_mode) + ", expected uid " + std::to_string(::geteuid()) +
               " and no write permission for group and others")
      .remedy(kRemedy);
}

}  // namespace

std::string octal_mode(mode_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04o", mode & 07777U);
  return text.data();
}

Result<void> check_directory_path(const std::string& path) {
  if (path.empty() || path.front() != '/' || path.find('\0') != std::string::npos) {
    return Error(Code::invalid_argument, kFindDirectory)
        .about(path)
        .because("the path is not absolute")
        .remedy(kRemedy);
  }
  if (path.size() > kRuntimeDirectoryMaxBytes) {
    return Error(Code::invalid_argument, kFindDirectory)
        .about(path)
        .because("the path has " + std::to_string(path.size()) + " bytes; sockets leave room for " +
                 std::to_string(kRuntimeDirectoryMaxBytes))
        .remedy("set VRAMLINK_RUNTIME_DIR to a directory with a shorter path")
        .numbers(path.size(), kRuntimeDirectoryMaxBytes);
  }
  return {};
}

Result<struct stat> stat_directory(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd && (errno == ENOTDIR || errno == ELOOP)) {
    return Error(Code::permission_denied, kFindDirectory)
        .about(path)
        .because("it is not a directory, or a symbolic link to one")
        .remedy(kRemedy);
  }
  if (!fd) return from_errno_at(path, "open");
  struct stat status {};
  if (::fstat(fd.get(), &status) == -1) return from_errno_at(path, "fstat");
  return status;
}

std::optional<DirectoryChoice> explicit_directory(const std::string& chosen_by_caller) {
  if (!chosen_by_caller.empty()) {
    return without_slashes({chosen_by_caller, DirectoryRule::option});
  }
  std::string chosen = environment("VRAMLINK_RUNTIME_DIR");
  if (chosen.empty()) return std::nullopt;
  return without_slashes({std::move(chosen), DirectoryRule::vramlink_runtime_dir});
}

DirectoryChoice choose_runtime_directory(const std::string& chosen_by_caller) {
  if (auto chosen = explicit_directory(chosen_by_caller)) return *std::move(chosen);
  return without_slashes(choose_for_user());
}

Result<std::string> find_runtime_directory(const std::string& chosen_by_caller) {
  std::string path = choose_runtime_directory(chosen_by_caller).path;
  VRAMLINK_CHECK(check_directory_path(path));
  if (::mkdir(path.c_str(), S_IRWXU) == -1 && errno != EEXIST) {
    return from_errno("mkdir").about(path).remedy(kRemedy);
  }
  VRAMLINK_CHECK(check_directory(path));
  return path;
}

}  // namespace vramlink::os
