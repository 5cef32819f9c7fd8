// What one Runtime adds to the process's state: where its names live.
#pragma once

#include <memory>
#include <string>

#include <vramlink/runtime.hpp>

#include "runtime/process_state.hpp"

namespace vramlink::inline v0 {

class Runtime::State {
 public:
  State(std::shared_ptr<runtime::ProcessState> process, std::string directory) noexcept
      : process_(std::move(process)), directory_(std::move(directory)) {}

  [[nodiscard]] const std::shared_ptr<runtime::ProcessState>& process() const noexcept {
    return process_;
  }
  [[nodiscard]] const std::string& directory() const noexcept { return directory_; }

 private:
  std::shared_ptr<runtime::ProcessState> process_;
  std::string directory_;
};

}  // namespace vramlink::inline v0
