// os: state, user and namespaces of a process, from /proc.
#include "os/process_view.hpp"

#include <sys/stat.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/try.hpp"
#include "os/parse.hpp"
#include "os/process.hpp"
#include "os/small_file.hpp"

namespace vramlink::os {
namespace {

constexpr std::array<const char*, 5> kKinds{"ipc", "mnt", "pid", "time", "user"};

/// What follows `key` in /proc/PID/status (proc(5)); empty if it is not there.
std::string_view after_key(std::string_view status, std::string_view key) noexcept {
  const std::size_t at = status.find(key);
  return at == std::string_view::npos ? std::string_view() : status.substr(at + key.size());
}

/// The inode that names a namespace; nothing if the kernel does not show it.
std::optional<std::uint64_t> read_namespace(const std::string& process, const char* kind) noexcept {
  struct stat status {};
  if (::stat(("/proc/" + process + "/ns/" + kind).c_str(), &status) == -1) return std::nullopt;
  return std::uint64_t{status.st_ino};
}

}  // namespace

Result<ProcessInfo> view_process(pid_t pid) {
  static_cast<void>(VRAMLINK_TRY(identify(pid)));  // that there is one, and a /proc that shows it
  const std::string process = std::to_string(pid);
  ProcessInfo info;
  info.pid = pid;
  info.program = process_name(pid);
  const std::string status = VRAMLINK_TRY(read_small_file("/proc/" + process + "/status"));
  std::string_view state = after_key(status, "\nState:");
  const std::string_view letter = next_word(state);
  info.stopped = letter == "T" || letter == "t";
  std::string_view users = after_key(status, "\nUid:");
  static_cast<void>(next_word(users));  // the real one
  info.uid = parse_number<std::int64_t>(next_word(users)).value_or(-1);
  for (const char* const kind : kKinds) {
    const auto theirs = read_namespace(process, kind);
    const auto ours = read_namespace("self", kind);
    if (theirs && ours && *theirs != *ours) info.other_namespaces.emplace_back(kind);
  }
  return info;
}

}  // namespace vramlink::os
