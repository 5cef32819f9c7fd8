// The primary context of a GPU, and being in it. It is the context that the runtime API uses too,
// so a program's streams belong to it unless the program made a context of its own.
//
// | handle         | closed by                 | depends on                                  |
// |----------------|---------------------------|---------------------------------------------|
// | PrimaryContext | cuDevicePrimaryCtxRelease | the Driver                                  |
// | EventHandle    | cuEventDestroy            | the PrimaryContext, which must outlive it   |
// | StreamHandle   | cuStreamDestroy           | the same                                    |
// | GraphHandle    | cuGraphDestroy            | the same                                    |
// | GraphExecHandle| cuGraphExecDestroy        | the same; its launches may be under way     |
//
// None of these waits for work of the GPU, and none calls the driver in a forked child.
#pragma once

#include <memory>
#include <utility>

#include <vramlink/device.hpp>
#include <vramlink/result.hpp>

#include "backend/cuda/driver.hpp"
#include "base/driver_calls.hpp"
#include "base/unique_handle.hpp"
#include "os/fork_guard.hpp"

namespace vramlink::cuda {

class PrimaryContext {
 public:
  /// Creates the context if nobody in this process has: a few hundred milliseconds and megabytes.
  /// Codes: driver, out_of_memory, no_device.
  [[nodiscard]] static Result<std::unique_ptr<PrimaryContext>> retain(
      std::shared_ptr<const Driver> driver, api::Device device);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  [[nodiscard]] const Driver& driver() const noexcept { return *driver_; }
  [[nodiscard]] api::Device device() const noexcept { return device_; }
  [[nodiscard]] api::Context get() const noexcept { return context_; }

 private:
  PrimaryContext(std::shared_ptr<const Driver> driver, api::Device device,
                 api::Context context) noexcept
      : driver_(std::move(driver)), device_(device), context_(context) {}

  std::shared_ptr<const Driver> driver_;
  api::Device device_;
  api::Context context_;
};

/// Makes the context current in this thread while it lives; what was current before is so again
/// afterwards. One driver call where the context is current already, else three. A driver that
/// fails once is asked again: what is closed in a scope would stay for ever if it were not entered.
class ContextScope {
 public:
  explicit ContextScope(const PrimaryContext& context) noexcept : driver_(context.driver()) {
    base::expect_driver_calls_allowed();
    api::Context current = nullptr;
    status_ = driver_.ctx_get_current(&current);
    if (status_ == api::Status::success && current == context.get()) return;
    status_ = driver_.ctx_push_current(context.get());
    if (status_ != api::Status::success) status_ = driver_.ctx_push_current(context.get());
    pushed_ = status_ == api::Status::success;
  }
  ~ContextScope() {
    if (pushed_) {
      api::Context popped = nullptr;
      driver_.report("cuCtxPopCurrent", driver_.ctx_pop_current(&popped));
    }
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  /// Whether the calls that follow go to the context.
  [[nodiscard]] Result<void> entered() const { return driver_.check("cuCtxPushCurrent", status_); }
  [[nodiscard]] explicit operator bool() const noexcept { return status_ == api::Status::success; }

 private:
  const Driver& driver_;
  api::Status status_;
  bool pushed_ = false;
};

/// Traits of a handle that one call of the driver closes.
template <class Value, api::Status (*api::Functions::*kClose)(Value), const char* kOperation>
struct HandleTraits {
  struct Raw {
    const PrimaryContext* context = nullptr;
    Value value{};
    friend bool operator==(const Raw&, const Raw&) noexcept = default;
  };
  static constexpr Raw kEmpty{};
  static void close(Raw raw) noexcept {
    if (os::in_forked_child()) return;
    const ContextScope scope(*raw.context);
    const Driver& driver = raw.context->driver();
    driver.report(kOperation, (driver.*kClose)(raw.value));
  }
};

inline constexpr char kEventDestroy[] = "cuEventDestroy";
inline constexpr char kStreamDestroy[] = "cuStreamDestroy";
inline constexpr char kGraphDestroy[] = "cuGraphDestroy";
inline constexpr char kGraphExecDestroy[] = "cuGraphExecDestroy";

using EventHandle =
    base::UniqueHandle<HandleTraits<api::Event, &api::Functions::event_destroy, kEventDestroy>>;
using StreamHandle =
    base::UniqueHandle<HandleTraits<api::Stream, &api::Functions::stream_destroy, kStreamDestroy>>;
using GraphHandle =
    base::UniqueHandle<HandleTraits<api::Graph, &api::Functions::graph_destroy, kGraphDestroy>>;
using GraphExecHandle = base::UniqueHandle<
    HandleTraits<api::GraphExec, &api::Functions::graph_exec_destroy, kGraphExecDestroy>>;

/// An event without a time. The context is current. Codes: driver, out_of_memory.
[[nodiscard]] Result<EventHandle> make_event(const PrimaryContext& context);
/// A stream that nothing else is ordered with. The context is current. Codes: as make_event.
[[nodiscard]] Result<StreamHandle> make_stream(const PrimaryContext& context);

}  // namespace vramlink::cuda
