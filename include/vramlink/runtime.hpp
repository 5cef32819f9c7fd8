// The entry: what can run here, and where names live.
#ifndef VRAMLINK_RUNTIME_HPP
#define VRAMLINK_RUNTIME_HPP

#include <memory>
#include <string>
#include <vector>

#include <vramlink/device.hpp>
#include <vramlink/export.hpp>
#include <vramlink/result.hpp>

namespace vramlink::inline v0 {

struct RuntimeOptions {
  /// Folder for names and sockets. Empty: $VRAMLINK_RUNTIME_DIR, else $XDG_RUNTIME_DIR/vramlink,
  /// else /run/user/UID/vramlink, else /tmp/vramlink-UID. Created with mode 0700; must be ours
  /// alone. For a group: $VRAMLINK_RUNTIME_DIR, else /run/vramlink-group-GID if it is there, else
  /// /tmp/vramlink-group-GID, with mode 2750 and that group, made by the first publisher.
  std::string directory = {};
  /// Empty: processes of this user alone. A name or a number: members of that group of users may
  /// subscribe and look, whatever user they run as, and the folder's owner may publish. Both sides
  /// say it: it is the subscriber's consent to read what a publisher of another user wrote.
  std::string group = {};
};

/// What a process shares among all its channels: one reactor thread, one janitor thread and the
/// mappings of other processes' memory. Cheap to copy; copies and other Runtimes of the process
/// share the threads, which end when the last user goes. Thread-safety: all members from any
/// thread. In a forked child every object is inert: calls return wrong_state, destructors touch
/// nothing shared.
class VRAMLINK_API Runtime {
 public:
  /// Starts the threads if this is the first. Does not wait for anyone. With VRAMLINK_CUDA=require
  /// in the environment it also looks for a usable GPU, and fails as that does (no_driver,
  /// no_device, unsupported).
  /// Codes: permission_denied (folder not ours, or not that of a group that we are in),
  /// invalid_argument (a path that is not absolute, or too long; no such group), not_found (the
  /// folder above is missing), os, resource_exhausted, out_of_memory, wrong_state (forked child).
  [[nodiscard]] static Result<Runtime> open(const RuntimeOptions& options = {});

  /// Every device, the unusable ones with their reason. The host comes first. Loads the GPU driver
  /// when first called, and makes no context. None in a forked child.
  [[nodiscard]] std::vector<DeviceInfo> devices() const;
  /// The folder that names live in.
  [[nodiscard]] const std::string& directory() const noexcept;

  class State;
  /// For the library's own parts.
  [[nodiscard]] const std::shared_ptr<State>& state() const noexcept { return state_; }

 private:
  explicit Runtime(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace vramlink::inline v0

#endif  // VRAMLINK_RUNTIME_HPP
