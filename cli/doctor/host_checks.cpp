// doctor: kernel, limits, runtime directory, channels.
#include "doctor/host_checks.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <vramlink/diagnose.hpp>
#include <vramlink/inspect.hpp>

#include "talk.hpp"

namespace vramlink::cli::doctor {
namespace {

using namespace std::chrono_literals;

constexpr auto kAnswerWait = 500ms;
// A publisher has 2 for each subscriber and 5 of its own; what else a program opens comes on top.
constexpr rlim_t kFilesAdvised = 512;
constexpr const char* kNewerKernel = "a newer kernel: 5.3 has all that is needed, 5.16 all of it";
constexpr const char* kOwnDirectory =
    "mkdir -p -m 700 ~/.vramlink && export VRAMLINK_RUNTIME_DIR=~/.vramlink";

void add_ability(Findings& findings, std::string id, const std::string& text,
                 const Ability& ability, Verdict without, const std::string& remedy) {
  if (ability.usable) {
    findings.add({std::move(id), Verdict::pass, text, {}});
  } else {
    findings.add({std::move(id), without, ability.why_not, remedy});
  }
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

void check_files(Findings& findings) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  Check check{"files", Verdict::pass, limit_text(limit.rlim_cur) + " open files a process", {}};
  if (limit.rlim_cur < kFilesAdvised) {
    check.verdict = Verdict::warn;
    check.text += "; a publisher with 64 subscribers needs more than 133";
    check.remedy = limit.rlim_max >= kFilesAdvised
                       ? "ulimit -n " + std::to_string(kFilesAdvised)
                       : "raise the hard limit (nofile in /etc/security/limits.conf, or "
                         "LimitNOFILE= of the service)";
  }
  findings.add(std::move(check));
}

// The GPU driver pins pages by itself and has not been seen to count them, so this never warns.
void check_locked(Findings& findings) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const std::string text =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : bytes_text(limit.rlim_cur);
  findings.add({"locked", Verdict::pass, text + " of locked memory", {}});
}

const char* rule_text(DirectoryRule rule) noexcept {
  switch (rule) {
    case DirectoryRule::option:
      return "as the program says";
    case DirectoryRule::vramlink_runtime_dir:
      return "by VRAMLINK_RUNTIME_DIR";
    case DirectoryRule::xdg_runtime_dir:
      return "by XDG_RUNTIME_DIR";
    case DirectoryRule::run_user:
      return "as /run/user/UID is there";
    case DirectoryRule::run_group:
      return "as /run has one for the group";
    case DirectoryRule::tmp_group:
      return "as neither VRAMLINK_RUNTIME_DIR is set nor /run has one for the group";
    case DirectoryRule::tmp:
      break;
  }
  return "as neither VRAMLINK_RUNTIME_DIR, XDG_RUNTIME_DIR nor /run/user/UID is there";
}

std::string mode_text(mode_t mode) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%04o", mode & 07777U);
  return text.data();
}

// What the library does not refuse, and yet no channel can be opened in.
Check directory_check(const DirectoryChoice& choice, bool was_there, const std::string& group) {
  Check check{"directory", Verdict::pass, choice.path, {}};
  struct stat status {};
  if (!group.empty() && !was_there) {
    check.text += std::string(" will be made by its first publisher, ") + rule_text(choice.rule);
    return check;
  }
  if (::stat(choice.path.c_str(), &status) != 0) {
    check.verdict = Verdict::fail;
    check.text += " cannot be looked at";
    check.remedy = kOwnDirectory;
    return check;
  }
  check.text += (was_there ? ", mode " : ", made with mode ") + mode_text(status.st_mode) +
                ", uid " + std::to_string(status.st_uid) + ", " + rule_text(choice.rule);
  if (!group.empty() && status.st_uid != ::geteuid()) {
    check.text += "; shared with group " + group + ", and its owner alone publishes there";
    return check;
  }
  if (::access(choice.path.c_str(), R_OK | W_OK | X_OK) != 0) {
    check.verdict = Verdict::fail;
    check.text += "; it cannot be written to";
    check.remedy = (group.empty() ? "chmod 700 " : "chmod 2750 ") + choice.path;
    return check;
  }
  struct statvfs space {};
  const bool known = ::statvfs(choice.path.c_str(), &space) == 0 && space.f_blocks > 0;
  if (known && (space.f_bavail == 0 || (space.f_files > 0 && space.f_favail == 0))) {
    check.verdict = Verdict::fail;
    check.text += "; its file system is full";
    check.remedy = "df -h -i " + choice.path;
  }
  return check;
}

}  // namespace

void check_kernel(Findings& findings) {
  const HostInfo info = inspect_host();
  findings.add({"kernel", Verdict::pass, "Linux " + info.kernel, {}});
  add_ability(findings, "memory", "memfds with seals; /dev/shm is not used", info.sealed_memory,
              Verdict::fail, kNewerKernel);
  add_ability(findings, "processes", "/proc of this pid namespace", info.process_table,
              Verdict::fail, "mount -t proc proc /proc");
  add_ability(findings, "pidfd", "deaths are proven by pidfds", info.process_descriptors,
              Verdict::fail, kNewerKernel);
  add_ability(findings, "futex", "futex_waitv", info.waiting_for_many, Verdict::warn, kNewerKernel);
  check_files(findings);
  check_locked(findings);
}

std::optional<Place> check_directory(Findings& findings, const std::string& group) {
  const DirectoryChoice choice = choose_directory({.group = group});
  struct stat status {};
  const bool was_there = ::lstat(choice.path.c_str(), &status) == 0;
  const bool reads_only = !group.empty() && was_there && status.st_uid != ::geteuid();
  if (reads_only) ::unsetenv("VRAMLINK_RUNTIME_DIR");  // before there is another thread
  auto runtime = Runtime::open({.directory = choice.path, .group = group});
  if (!runtime) {
    Check check = failed_check("directory", runtime.error());
    if (!choice.path.empty()) check.text += std::string("; chosen ") + rule_text(choice.rule);
    const bool ours = was_there && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
    // Of a group's the error itself says what to do.
    if (group.empty()) check.remedy = ours ? "chmod 700 " + choice.path : kOwnDirectory;
    findings.add(std::move(check));
    return std::nullopt;
  }
  Check check = directory_check(choice, was_there, group);
  const bool failed = check.verdict == Verdict::fail;
  findings.add(std::move(check));
  if (failed) return std::nullopt;
  return Place{*std::move(runtime), reads_only ? std::string() : group};
}

void check_channels(Findings& findings, const Runtime& runtime) {
  const auto names = list_channels(runtime);
  if (!names) return findings.add(failed_check("channels", names.error()));
  Check check{"channels", Verdict::pass, std::to_string(names->size()), {}};
  std::size_t silent = 0;
  for (const std::string& each : *names) {
    const auto channel = inspect_channel(runtime, each, kAnswerWait);
    if (!channel || channel->responsive) continue;
    if (silent++ == 0) {
      check.verdict = Verdict::warn;
      check.text += "; the owner of '" + each + "' (pid " + std::to_string(channel->owner_pid) +
                    ") does not answer";
      check.remedy = "ps -o pid,stat,cmd -p " + std::to_string(channel->owner_pid);
    }
  }
  if (silent > 1) check.text += ", and of " + std::to_string(silent - 1) + " more";
  findings.add(std::move(check));
}

}  // namespace vramlink::cli::doctor
