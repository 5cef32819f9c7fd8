// What one Runtime adds to the process's state: where its names live.
#pragma once

#include <memory>
#include <utility>

#include <vramlink/runtime.hpp>

#include "os/group_directory.hpp"
#include "runtime/process_state.hpp"

namespace vramlink::inline v0 {

class Runtime::State {
 public:
  State(std::shared_ptr<runtime::ProcessState> process, os::RuntimeDirectory directory) noexcept
      : process_(std::move(process)), directory_(std::move(directory)) {}

  [[nodiscard]] const std::shared_ptr<runtime::ProcessState>& process() const noexcept {
    return process_;
  }
  [[nodiscard]] const os::RuntimeDirectory& directory() const noexcept { return directory_; }

 private:
  std::shared_ptr<runtime::ProcessState> process_;
  os::RuntimeDirectory directory_;
};

}  // namespace vramlink::inline v0
