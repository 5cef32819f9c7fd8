// What is shared on this host. An observer takes no slot, is not counted and never touches payload.
#ifndef VRAMLINK_INSPECT_HPP
#define VRAMLINK_INSPECT_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <vramlink/deadline.hpp>
#include <vramlink/device.hpp>
#include <vramlink/error.hpp>
#include <vramlink/export.hpp>
#include <vramlink/format.hpp>
#include <vramlink/result.hpp>
#include <vramlink/runtime.hpp>
#include <vramlink/statistics.hpp>

namespace vramlink::inline v0 {

/// One channel as an observer sees it.
struct ChannelInfo {
  std::string name;
  std::int32_t owner_pid = 0;
  std::string owner_name;   ///< program name, empty if not visible
  bool responsive = false;  ///< false: the owner did not answer in time; the rest is unknown
  std::string trouble;      ///< why not responsive
  /// The same for programs: timed_out, peer_gone, full, incompatible (another wire version),
  /// permission_denied, corrupt, or what else the way to it or its answer said.
  std::optional<Error> trouble_error;
  DeviceId device;
  Format format;
  std::uint32_t slot_count = 0;
  double frames_per_second = 0;     ///< over the slots' time stamps; 0: unknown
  std::int64_t newest_age_ns = -1;  ///< since the newest frame was published; -1: none yet
  std::uint64_t newest_sequence = 0;
  PublisherStatistics statistics;
};

/// A process of this host, as the kernel shows it to this one.
struct ProcessInfo {
  /// As our pid namespace counts; 0: not visible here, and the rest but `uid` is not known.
  std::int32_t pid = 0;
  std::string program;    ///< its name; empty if unknown
  std::int64_t uid = -1;  ///< effective, as our user namespace counts; -1: unknown
  bool stopped = false;   ///< by a signal or a debugger: it answers nobody
  /// Kinds of namespaces in which it is not in ours: of "ipc", "mnt", "pid", "time" and "user", in
  /// this order, those that the kernel shows us.
  std::vector<std::string> other_namespaces;
};

/// What an address points into. docs/memory_types.md says which can be shared, and how.
enum class MemoryType : std::uint8_t {
  nothing,         ///< freed, or never allocated
  host,            ///< ordinary host memory, which no driver knows
  pinned,          ///< host memory of the driver: cudaMallocHost
  registered,      ///< host memory that was registered with it: cudaHostRegister
  managed,         ///< moves between host and GPU: cudaMallocManaged
  device,          ///< memory of a GPU: cudaMalloc
  pool,            ///< the same from a stream-ordered pool: cudaMallocAsync
  mapped,          ///< of the virtual memory calls (cuMemCreate), made to be exported
  mapped_private,  ///< the same, made without: PyTorch's expandable segments, for example
};

/// For people: "memory of cudaMalloc", "managed memory".
[[nodiscard]] VRAMLINK_API const char* to_string(MemoryType type) noexcept;

struct MemoryInfo {
  MemoryType type = MemoryType::nothing;
  DeviceId device;                  ///< where it lives; the host's of host memory
  std::uint64_t offset_bytes = 0;   ///< of the address in its allocation; 0 if unknown
  std::uint64_t size_bytes = 0;     ///< of the allocation; 0 if unknown, as of ordinary memory
  bool exports_descriptor = false;  ///< whole allocations go to other processes as file descriptors
  bool exports_legacy_handle = false;  ///< and by legacy handles, which show the whole allocation
};

/// What this process has at an address, as its GPU driver says, and without one the kernel. Loads
/// the driver if it was not loaded; makes no context. Of memory in a GPU that this process does not
/// see the device is the host's.
/// Codes: driver, wrong_state (forked child).
[[nodiscard]] VRAMLINK_API Result<MemoryInfo> inspect_memory(const Runtime& runtime,
                                                             const void* address);

/// Names that have a living publisher, sorted.
/// Codes: os, permission_denied, resource_exhausted (file descriptors), wrong_state (forked child).
[[nodiscard]] VRAMLINK_API Result<std::vector<std::string>> list_channels(const Runtime& runtime);
/// Asks one publisher. An owner that does not answer gives a ChannelInfo that says so.
/// Codes: not_found (with similar names), invalid_argument, os, permission_denied,
/// resource_exhausted (file descriptors), wrong_state (forked child).
[[nodiscard]] VRAMLINK_API Result<ChannelInfo> inspect_channel(const Runtime& runtime,
                                                               std::string_view name,
                                                               Deadline deadline);
/// The process `pid` of our pid namespace. Never blocks.
/// Codes: not_found, invalid_argument (below 1), unsupported (no /proc of our pid namespace), os.
[[nodiscard]] VRAMLINK_API Result<ProcessInfo> inspect_process(std::int32_t pid);
/// The process that owns a channel. The kernel is asked, not the process, so this works where it is
/// stopped. Never blocks.
/// Codes: not_found (with similar names), invalid_argument, os, unsupported (no /proc),
/// permission_denied, resource_exhausted (file descriptors), wrong_state (forked child).
[[nodiscard]] VRAMLINK_API Result<ProcessInfo> inspect_owner(const Runtime& runtime,
                                                             std::string_view name);
/// Whether `reader` can read memory of `owner` where it is: allocates a little there, exports it
/// and maps it, as a channel and its subscriber do, and gives it back. Makes contexts on GPUs that
/// have none in this process. Waits for no peer, but for the two devices.
/// Codes: unsupported (it cannot, with the reason), no_device (one of them is not visible here),
/// no_driver, driver, out_of_memory, os, resource_exhausted, wrong_state (forked child).
[[nodiscard]] VRAMLINK_API Result<void> check_reach(const Runtime& runtime, const DeviceId& owner,
                                                    const DeviceId& reader);

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_INSPECT_HPP
