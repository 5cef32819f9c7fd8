// runtime: what can be used here, by trying it. See vramlink/diagnose.hpp.
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include <vramlink/diagnose.hpp>

#include "base/try.hpp"
#include "os/fork_guard.hpp"
#include "os/futex.hpp"
#include "os/process.hpp"
#include "os/runtime_directory.hpp"
#include "os/shared_segment.hpp"
#include "runtime/runtime_state.hpp"

namespace vramlink::inline v0 {
namespace {

constexpr std::uint64_t kTrialBytes = 4096;

template <class T>
Ability ability(const Result<T>& tried) {
  if (tried) return {true, {}};
  return {false, to_string(tried.error())};
}

/// As every channel does it: seals after our own mapping, and a reader beside it.
Result<void> try_sealed_memory() {
  const os::SharedSegment segment =
      VRAMLINK_TRY(os::SharedSegment::create("vramlink-trial", kTrialBytes));
  const os::Mapping writer = VRAMLINK_TRY(segment.map(os::Access::read_write));
  VRAMLINK_CHECK(segment.add_seals(os::kFullSeals));
  VRAMLINK_CHECK(segment.verify_seals(os::kFullSeals));
  const os::Mapping reader = VRAMLINK_TRY(segment.map(os::Access::read_only));
  return {};
}

/// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue ...": the first word of digits
/// and points, with a point.
std::string kernel_release() {
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word;) {
    const bool digits = word.find_first_not_of("0123456789.") == std::string::npos;
    if (digits && word.find('.') != std::string::npos) return word;
  }
  return {};
}

}  // namespace

HostInfo inspect_host() {
  HostInfo info;
  utsname system{};
  if (::uname(&system) == 0) info.kernel = system.release;
  info.sealed_memory = ability(try_sealed_memory());
  info.process_table = ability(os::identify_self());
  info.process_descriptors = ability(os::open_pidfd(::getpid()));
  info.waiting_for_many.usable = os::futex_wait_any_supported();
  if (!info.waiting_for_many.usable) {
    info.waiting_for_many.why_not = "futex_waitv is missing (Linux 5.16 has it)";
  }
  return info;
}

DriverInfo inspect_driver(const Runtime& runtime) {
  DriverInfo info;
  if (const Result<void> usable = os::require_not_forked("inspect driver"); !usable) {
    info.trouble = usable.error();
    return info;
  }
  info = runtime.state()->process()->backends().driver();
  info.release = kernel_release();
  return info;
}

DirectoryChoice choose_directory(const RuntimeOptions& options) {
  return os::choose_runtime_directory(options.directory);
}

}  // namespace vramlink::inline v0
