// runtime: what can be used here, by trying it. See vramlink/diagnose.hpp; of inspect.hpp the parts
// that need no channel.
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include <vramlink/diagnose.hpp>
#include <vramlink/inspect.hpp>

#include "base/try.hpp"
#include "os/fork_guard.hpp"
#include "os/futex.hpp"
#include "os/group_directory.hpp"
#include "os/process.hpp"
#include "os/process_view.hpp"
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

Result<ProcessInfo> inspect_process(std::int32_t pid) {
  Result<ProcessInfo> info = os::view_process(pid);
  if (!info.failed_with(Code::peer_gone)) return info;
  return Error(Code::not_found, "inspect process")
      .about(std::to_string(pid))
      .because("there is no such process here")
      .remedy("`ps` shows those of this pid namespace");
}

Result<void> check_reach(const Runtime& runtime, const DeviceId& owner, const DeviceId& reader) {
  VRAMLINK_CHECK(os::require_not_forked("check reach"));
  const runtime::BackendRegistry& backends = runtime.state()->process()->backends();
  backend::Backend* const from = VRAMLINK_TRY(backends.find(owner));
  backend::Backend* const to = VRAMLINK_TRY(backends.find(reader));
  if (from->capabilities().memory_kind != to->capabilities().memory_kind) {
    return Error(Code::unsupported, "check reach")
        .about(to_string(reader))
        .because("it cannot map memory of " + to_string(owner))
        .device(owner.uuid);
  }
  if (from->capabilities().streams) runtime::finish_before_drivers();
  const std::unique_ptr<backend::Memory> memory = VRAMLINK_TRY(from->allocate(kTrialBytes));
  const std::unique_ptr<backend::ImportedMemory> import = VRAMLINK_TRY(
      to->import_memory(VRAMLINK_TRY(memory->export_memory()), kTrialBytes, os::Access::read_only));
  return {};
}

Result<MemoryInfo> inspect_memory(const Runtime& runtime, const void* address) {
  VRAMLINK_CHECK(os::require_not_forked("inspect memory"));
  return runtime.state()->process()->backends().inspect(static_cast<const std::byte*>(address));
}

const char* to_string(MemoryType type) noexcept {
  switch (type) {
    case MemoryType::nothing:
      return "nothing: freed, or never allocated";
    case MemoryType::host:
      return "ordinary host memory";
    case MemoryType::pinned:
      return "host memory of cudaMallocHost";
    case MemoryType::registered:
      return "host memory of cudaHostRegister";
    case MemoryType::managed:
      return "managed memory";
    case MemoryType::device:
      return "memory of cudaMalloc";
    case MemoryType::pool:
      return "memory of cudaMallocAsync";
    case MemoryType::mapped:
      return "memory of cuMemCreate that can be exported";
    case MemoryType::mapped_private:
      return "memory of cuMemCreate that was made without a way to export it";
  }
  return "unknown memory";
}

DirectoryChoice choose_directory(const RuntimeOptions& options) {
  if (options.group.empty()) return os::choose_runtime_directory(options.directory);
  const Result<os::Group> group = os::find_group(options.group);
  if (!group) return {{}, DirectoryRule::tmp_group};
  return os::choose_group_directory(options.directory, *group);
}

}  // namespace vramlink::inline v0
