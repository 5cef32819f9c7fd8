// The public Runtime over ProcessState.
#include <utility>

#include "base/try.hpp"
#include "os/fork_guard.hpp"
#include "os/group_directory.hpp"
#include "runtime/runtime_state.hpp"

namespace vramlink::inline v0 {

Result<Runtime> Runtime::open(const RuntimeOptions& options) {
  VRAMLINK_CHECK(os::require_not_forked("open runtime"));
  os::RuntimeDirectory directory =
      VRAMLINK_TRY(os::open_runtime_directory(options.directory, options.group));
  std::shared_ptr<runtime::ProcessState> process = VRAMLINK_TRY(runtime::ProcessState::acquire());
  VRAMLINK_CHECK(process->backends().check_required());
  return Runtime(std::make_shared<State>(std::move(process), std::move(directory)));
}

std::vector<DeviceInfo> Runtime::devices() const {
  if (os::in_forked_child()) return {};  // the driver is the parent's, and perhaps a lock
  return state_->process()->backends().devices();
}

const std::string& Runtime::directory() const noexcept { return state_->directory().path; }

}  // namespace vramlink::inline v0
