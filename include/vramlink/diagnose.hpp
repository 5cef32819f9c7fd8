// What the library finds where it runs: for `vramlink doctor` and for reports of faults.
#ifndef VRAMLINK_DIAGNOSE_HPP
#define VRAMLINK_DIAGNOSE_HPP

#include <cstdint>
#include <optional>
#include <string>

#include <vramlink/error.hpp>
#include <vramlink/export.hpp>
#include <vramlink/runtime.hpp>

namespace vramlink::inline v0 {

/// One thing that the library would use, found out by trying it.
struct Ability {
  bool usable = false;
  std::string why_not;  ///< empty when usable
};

/// What the kernel offers.
struct HostInfo {
  std::string kernel;           ///< its release, such as "6.18.5"
  Ability sealed_memory;        ///< memfds with every seal: nothing is shared without
  Ability process_table;        ///< /proc of our own pid namespace: nothing is shared without
  Ability process_descriptors;  ///< pidfds, the proof of a death: nothing is shared without
  Ability waiting_for_many;     ///< futex_waitv; without it a claim that waits naps for 1 ms
};

/// Tries everything anew. Never blocks, starts no thread, and leaves nothing behind.
[[nodiscard]] VRAMLINK_API HostInfo inspect_host();

/// The GPU driver as this process has it.
struct DriverInfo {
  std::string library;           ///< what is loaded: $VRAMLINK_CUDA_LIBRARY, else libcuda.so.1
  std::string release;           ///< of the kernel's part, "580.159.04"; empty if there is none
  std::uint32_t version = 0;     ///< the CUDA that it offers, 13000 is 13.0; 0: nothing was loaded
  std::optional<Error> trouble;  ///< why there are no GPUs at all
};

/// Loads the driver if nobody has. Makes no context.
[[nodiscard]] VRAMLINK_API DriverInfo inspect_driver(const Runtime& runtime);

/// Which rule says where names live; the first that applies.
enum class DirectoryRule : std::uint8_t {
  option,                ///< RuntimeOptions::directory
  vramlink_runtime_dir,  ///< $VRAMLINK_RUNTIME_DIR
  xdg_runtime_dir,       ///< $XDG_RUNTIME_DIR/vramlink
  run_user,              ///< /run/user/UID/vramlink
  tmp,                   ///< /tmp/vramlink-UID
  run_group,             ///< /run/vramlink-group-GID is there
  tmp_group              ///< /tmp/vramlink-group-GID
};

struct DirectoryChoice {
  std::string path;  ///< empty for a group that does not exist
  DirectoryRule rule = DirectoryRule::tmp;
};

/// The folder that Runtime::open() with these options uses, whether or not it is there and ours.
/// Reads the environment: not while another thread changes it.
[[nodiscard]] VRAMLINK_API DirectoryChoice choose_directory(const RuntimeOptions& options = {});

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_DIAGNOSE_HPP
