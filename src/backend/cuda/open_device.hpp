// One GPU that this process works with: its primary context and what all objects on it share.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <vramlink/deadline.hpp>
#include <vramlink/device.hpp>
#include <vramlink/stream.hpp>

#include "backend/cuda/context.hpp"
#include "backend/cuda/device_list.hpp"
#include "backend/cuda/event_pool.hpp"
#include "backend/cuda/own_work.hpp"
#include "backend/cuda/staging_stock.hpp"
#include "backend/cuda/words.hpp"

namespace vramlink::cuda {

/// Shared by the back ends of one registry.
struct Platform {
  std::shared_ptr<const Driver> driver;
  std::shared_ptr<Registrations> registrations = std::make_shared<Registrations>();
};

/// Held by the back end and by every object of it, so the context is released after the last.
/// Thread-safe.
class OpenDevice {
 public:
  /// Retains the primary context and tries on scratch memory what the back end of this kind relies
  /// on.
  /// Codes: unsupported (what failed, and how), driver, out_of_memory, no_device.
  [[nodiscard]] static Result<std::shared_ptr<OpenDevice>> open(Platform platform,
                                                                const ListedDevice& listed,
                                                                wire::MemoryKind kind);
  /// Waits a moment for work of our own that is still under way.
  ~OpenDevice();
  OpenDevice(const OpenDevice&) = delete;
  OpenDevice& operator=(const OpenDevice&) = delete;

  [[nodiscard]] const Driver& driver() const noexcept { return *platform_.driver; }
  [[nodiscard]] const std::shared_ptr<const PrimaryContext>& context() const noexcept {
    return context_;
  }
  [[nodiscard]] const std::shared_ptr<Registrations>& registrations() const noexcept {
    return platform_.registrations;
  }
  [[nodiscard]] const DeviceId& id() const noexcept { return id_; }
  [[nodiscard]] api::Device ordinal() const noexcept { return context_->device(); }
  /// Memory of the virtual memory calls comes in multiples of this; 0 where none is asked for.
  [[nodiscard]] std::uint64_t granularity_bytes() const noexcept { return granularity_bytes_; }
  [[nodiscard]] EventPool& events() noexcept { return events_; }
  [[nodiscard]] OwnWork& own_work() noexcept { return own_work_; }
  [[nodiscard]] StagingStock& staging_stock() noexcept { return staging_stock_; }
  /// A stream of ours for short work that is waited for.
  [[nodiscard]] api::Stream scratch_stream() const noexcept { return scratch_stream_; }

  /// The primary context of another GPU, in which memory is mapped that this one cannot reach. Kept
  /// from the first call on. Thread-safe. Codes: as PrimaryContext::retain.
  [[nodiscard]] Result<api::Context> context_of(api::Device other);

  /// What memory of this device is asked for with.
  [[nodiscard]] api::AllocationProperties allocation_properties() const noexcept;

  /// The driver's stream of a view that is not already complete; needs the context current.
  /// Codes: wrong_state (another device's, or another context's), driver.
  [[nodiscard]] Result<api::Stream> resolve(const char* operation, StreamView stream) const {
    const auto raw = reinterpret_cast<api::Stream>(stream.handle());
    api::Context owner = nullptr;
    const api::Status status = driver().stream_get_ctx(raw, &owner);
    if (status == api::Status::success && owner == context_->get()) [[likely]] {
      return raw;
    }
    return foreign_stream(operation, status, owner);
  }

  /// Waits until the work that is in `stream` now is complete. The context is current. Codes:
  /// timed_out, driver.
  [[nodiscard]] Result<void> finish(api::Stream stream, Deadline deadline);

  /// Codes: driver (the fault).
  [[nodiscard]] Result<void> check_health() const;

 private:
  OpenDevice(Platform platform, const DeviceId& id,
             std::shared_ptr<const PrimaryContext> context) noexcept
      : platform_(std::move(platform)),
        id_(id),
        context_(std::move(context)),
        events_(*context_),
        own_work_(*context_),
        staging_stock_(*context_) {}
  [[nodiscard]] Result<void> prepare(wire::MemoryKind kind);
  [[nodiscard]] Error foreign_stream(const char* operation, api::Status status,
                                     api::Context owner) const;

  Platform platform_;
  DeviceId id_;
  std::shared_ptr<const PrimaryContext> context_;
  std::uint64_t granularity_bytes_ = 0;
  EventPool events_;
  OwnWork own_work_;
  StagingStock staging_stock_;
  api::Stream scratch_stream_ = nullptr;  // owned by own_work_
  EventHandle health_event_;              // recorded once; a fault shows in its query
  std::mutex others_mutex_;
  std::map<api::Device, std::unique_ptr<PrimaryContext>> others_;
};

}  // namespace vramlink::cuda
