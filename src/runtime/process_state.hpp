// What one process has once: the two threads and the mappings. The only mutable global of the
// library is the weak reference to it in process_state.cpp.
#pragma once

#include <memory>
#include <utility>

#include <vramlink/result.hpp>

#include "base/log.hpp"
#include "base/log_relay.hpp"
#include "runtime/import_registry.hpp"
#include "runtime/janitor.hpp"
#include "runtime/reactor.hpp"
#include "runtime/registry.hpp"

namespace vramlink::runtime {

/// Once a driver was loaded: what objects left to the janitor is done before the driver's own end
/// of the program. Idempotent.
void finish_before_drivers() noexcept;

/// Shared by all Runtimes, publishers and subscribers of the process; ends with the last of them.
/// Both threads always run: what the reactor logs is written by the janitor, since a sink may
/// block.
class ProcessState {
 public:
  /// The process's state, started if there is none. Codes: os, resource_exhausted, wrong_state.
  [[nodiscard]] static Result<std::shared_ptr<ProcessState>> acquire();
  ProcessState(const ProcessState&) = delete;
  ProcessState& operator=(const ProcessState&) = delete;
  ~ProcessState();

  [[nodiscard]] Reactor& reactor() noexcept { return *reactor_; }
  [[nodiscard]] Janitor& janitor() noexcept { return *janitor_; }
  [[nodiscard]] ImportRegistry& imports() noexcept { return imports_; }
  [[nodiscard]] const BackendRegistry& backends() const noexcept { return backends_; }
  /// For tests, before anything is opened: one more device.
  void add_backend(std::unique_ptr<backend::Backend> backend) { backends_.add(std::move(backend)); }

 private:
  ProcessState();
  static void destroy(ProcessState* state) noexcept;
  /// Takes what the reactor's thread logs.
  static void hand_to_janitor(const base::LogLine& line, void* state);

  BackendRegistry backends_;
  ImportRegistry imports_;
  base::LogRelay log_relay_;          // dies after the janitor, whose jobs empty it
  std::unique_ptr<Janitor> janitor_;  // runs what is queued before it dies
  std::unique_ptr<Reactor> reactor_;  // dies first: its handlers and its log post to the janitor
};

}  // namespace vramlink::runtime
