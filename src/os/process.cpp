// os: identities from /proc, and pidfds.
#include "os/process.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string_view>

#include "base/hex.hpp"
#include "base/try.hpp"
#include "os/errno.hpp"
#include "os/parse.hpp"
#include "os/small_file.hpp"

namespace vramlink::os {
namespace {

static_assert(sizeof(ProcessIdentity) == 40);

struct ProcessState {
  char state = '?';
  std::int64_t thread_count = 0;
  std::uint64_t start_time_ticks = 0;  ///< as seen from our time namespace
};

/// Parses /proc/PID/stat (proc(5)). The second field is the program's name in parentheses and may
/// itself contain blanks and parentheses, so fields are counted from the last ')'.
std::optional<ProcessState> parse_stat(std::string_view stat) noexcept {
  const auto name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return std::nullopt;
  std::string_view rest = stat.substr(name_end + 1);
  ProcessState process;
  for (int field = 3; field <= 22; ++field) {
    const std::string_view word = next_word(rest);
    if (field == 3 && word.size() == 1) process.state = word[0];
    if (field == 20) {
      const auto number = parse_number<std::int64_t>(word);
      if (!number) return std::nullopt;
      process.thread_count = *number;
    }
    if (field == 22) {
      const auto number = parse_number<std::uint64_t>(word);
      if (!number) return std::nullopt;
      process.start_time_ticks = *number;
    }
  }
  return process;
}

std::string proc_path(pid_t pid, const char* entry) {
  return "/proc/" + std::to_string(pid) + "/" + entry;
}

Result<ProcessState> read_state(pid_t pid) {
  const std::string content = VRAMLINK_TRY(read_small_file(proc_path(pid, "stat")));
  const auto process = parse_stat(content);
  if (!process) {
    return Error(Code::unsupported, "identify process")
        .about(proc_path(pid, "stat"))
        .because("its content is not understood");
  }
  return *process;
}

/// /proc may be missing, or may show another pid namespace: then its numbers mean other processes.
Result<void> require_own_proc() {
  std::array<char, 32> target{};
  const ssize_t size_bytes = ::readlink("/proc/self", target.data(), target.size());
  const auto pid = size_bytes < 0 ? std::nullopt
                                  : parse_number<pid_t>(std::string_view(
                                        target.data(), static_cast<std::size_t>(size_bytes)));
  if (pid == ::getpid()) return {};
  return Error(Code::unsupported, "identify process")
      .about("/proc")
      .because(pid ? "it shows another pid namespace" : "it is not mounted")
      .remedy("mount proc for the pid namespace of this process");
}

/// How far our time namespace moves the times since boot that /proc shows, in ticks.
std::int64_t boot_time_offset_ticks() {
  const auto content = read_small_file("/proc/self/timens_offsets");
  if (!content) return 0;  // before Linux 5.6 there are no time namespaces
  std::string_view rest = *content;
  while (!rest.empty()) {
    const std::string_view clock = next_word(rest);
    const auto seconds = parse_number<std::int64_t>(next_word(rest));
    const auto nanoseconds = parse_number<std::int64_t>(next_word(rest));
    if (clock != "boottime" || !seconds || !nanoseconds) continue;
    const std::int64_t ticks_per_second = ::sysconf(_SC_CLK_TCK);
    return *seconds * ticks_per_second + *nanoseconds / (1'000'000'000 / ticks_per_second);
  }
  return 0;
}

Result<std::array<std::uint8_t, 16>> read_boot_id() {
  const char* path = "/proc/sys/kernel/random/boot_id";
  const std::string text = VRAMLINK_TRY(read_small_file(path));
  std::array<std::uint8_t, 16> boot_id{};
  std::size_t digit_count = 0;
  for (const char character : text) {
    const int digit = base::hex_digit(character);
    if (digit < 0) continue;  // the dashes of a UUID
    if (digit_count < 2 * boot_id.size()) {
      auto& byte = boot_id[digit_count / 2];
      byte = static_cast<std::uint8_t>(byte * 16 + digit);
    }
    ++digit_count;
  }
  if (digit_count != 2 * boot_id.size()) {
    return Error(Code::unsupported, "identify process")
        .about(path)
        .because("its content is not understood");
  }
  return boot_id;
}

Result<std::uint64_t> read_pid_namespace() {
  struct stat status {};
  if (::stat("/proc/self/ns/pid", &status) == -1) {
    return from_errno("stat").about("/proc/self/ns/pid");
  }
  return std::uint64_t{status.st_ino};
}

/// Where and when we are: what an identity must share with us for its pid to mean anything.
Result<ProcessIdentity> identify_surroundings() {
  VRAMLINK_CHECK(require_own_proc());
  ProcessIdentity identity;
  identity.boot_id = VRAMLINK_TRY(read_boot_id());
  identity.pid_namespace = VRAMLINK_TRY(read_pid_namespace());
  return identity;
}

bool process_exists(pid_t pid) noexcept { return ::kill(pid, 0) == 0 || errno != ESRCH; }

}  // namespace

Result<ProcessIdentity> identify_self() { return identify(::getpid()); }

Result<ProcessIdentity> identify(pid_t pid) {
  if (pid < 1) {
    return Error(Code::invalid_argument, "identify process").because("a pid is at least 1");
  }
  ProcessIdentity identity = VRAMLINK_TRY(identify_surroundings());
  if (!process_exists(pid)) return Error(Code::peer_gone, "identify process");
  auto process = read_state(pid);
  if (!process) {
    if (!process_exists(pid)) return Error(Code::peer_gone, "identify process");
    return std::move(process).error();
  }
  identity.pid = pid;
  identity.start_time_ticks =
      process->start_time_ticks - static_cast<std::uint64_t>(boot_time_offset_ticks());
  return identity;
}

Life life_of(const ProcessIdentity& identity) {
  const auto surroundings = identify_surroundings();
  if (!surroundings || identity.pid < 1) return Life::unknown;
  if (identity.boot_id != surroundings->boot_id) return Life::dead;
  if (identity.pid_namespace != surroundings->pid_namespace) return Life::unknown;
  if (!process_exists(identity.pid)) return Life::dead;
  const auto process = read_state(identity.pid);
  if (!process) {
    // /proc may hide the processes of other users; that proves nothing.
    return process_exists(identity.pid) ? Life::unknown : Life::dead;
  }
  const std::uint64_t start_time_ticks =
      process->start_time_ticks - static_cast<std::uint64_t>(boot_time_offset_ticks());
  if (!is_same_start(start_time_ticks, identity.start_time_ticks)) return Life::dead;
  // A first thread that has ended is shown as a zombie while other threads go on.
  const bool is_zombie = process->state == 'Z' || process->state == 'X';
  return is_zombie && process->thread_count <= 1 ? Life::dead : Life::alive;
}

Result<UniqueFd> open_pidfd(pid_t pid) {
  if (pid < 1) return Error(Code::invalid_argument, "pidfd_open").because("a pid is at least 1");
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return from_errno("pidfd_open");
  return fd;
}

Result<pid_t> pid_of_pidfd(int fd) {
  constexpr std::string_view kKey = "\nPid:\t";
  const auto info = read_small_file("/proc/self/fdinfo/" + std::to_string(fd));
  const auto key_at = info ? info->find(kKey) : std::string::npos;
  if (key_at != std::string::npos) {
    std::string_view rest = std::string_view(*info).substr(key_at + kKey.size());
    if (const auto pid = parse_number<pid_t>(next_word(rest))) return *pid;
  }
  return Error(Code::invalid_argument, "inspect pidfd").because("the descriptor is not a pidfd");
}

bool is_pidfd(int fd) noexcept { return pid_of_pidfd(fd).has_value(); }

bool pidfd_exited(int fd) noexcept {
  pollfd process{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&process, 1, 0) == 1 && (process.revents & (POLLIN | POLLHUP)) != 0;
}

std::string process_name(pid_t pid) {
  auto name = read_small_file(proc_path(pid, "comm"));
  if (!name) return "";
  if (!name->empty() && name->back() == '\n') name->pop_back();
  for (char& character : *name) {
    if (character < ' ' || character > '~') character = '?';
  }
  return *std::move(name);
}

}  // namespace vramlink::os
