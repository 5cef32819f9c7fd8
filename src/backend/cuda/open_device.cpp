// See open_device.hpp.
#include "backend/cuda/open_device.hpp"

#include <chrono>
#include <string>

#include "backend/cuda/trial.hpp"
#include "base/log.hpp"
#include "base/try.hpp"
#include "os/threads.hpp"

namespace vramlink::cuda {
namespace {

constexpr std::chrono::seconds kEndWait{2};
constexpr std::chrono::microseconds kSpin{100};
constexpr std::chrono::microseconds kNap{50};

}  // namespace

Result<std::shared_ptr<OpenDevice>> OpenDevice::open(Platform platform, const ListedDevice& listed,
                                                     wire::MemoryKind kind) {
  std::shared_ptr<const PrimaryContext> context =
      VRAMLINK_TRY(PrimaryContext::retain(platform.driver, listed.device));
  std::shared_ptr<OpenDevice> device(
      new OpenDevice(std::move(platform), listed.info.id, std::move(context)));
  const ContextScope scope(*device->context_);
  VRAMLINK_CHECK(scope.entered());
  VRAMLINK_CHECK(device->prepare(kind));
  VRAMLINK_CHECK(try_out(device, listed.info.name, kind));
  return device;
}

Result<void> OpenDevice::prepare(wire::MemoryKind kind) {
  if (kind == wire::MemoryKind::device) {
    std::size_t granularity = 0;
    const api::AllocationProperties properties = allocation_properties();
    VRAMLINK_CHECK(driver().check("cuMemGetAllocationGranularity",
                                  driver().mem_get_allocation_granularity(
                                      &granularity, &properties, api::Granularity::minimum)));
    granularity_bytes_ = granularity;
  }
  scratch_stream_ = VRAMLINK_TRY(own_work_.add_stream());
  health_event_ = VRAMLINK_TRY(make_event(*context_));
  return driver().check("cuEventRecord",
                        driver().event_record(health_event_.get().value, scratch_stream_));
}

OpenDevice::~OpenDevice() {
  if (os::in_forked_child() || own_work_.finish(Deadline::after(kEndWait))) return;
  base::report_failure("close GPU",
                       Error(Code::timed_out, "close GPU")
                           .about(to_string(id_))
                           .because("a copy still waits for a stream; its memory stays allocated"));
  own_work_.leak();
  staging_stock_.leak();
  // Never released: what was leaked belongs to it.
  static_cast<void>(new std::shared_ptr<const PrimaryContext>(context_));
}

Result<api::Context> OpenDevice::context_of(api::Device other) {
  const std::lock_guard lock(others_mutex_);
  std::unique_ptr<PrimaryContext>& kept = others_[other];
  if (!kept) kept = VRAMLINK_TRY(PrimaryContext::retain(platform_.driver, other));
  return kept->get();
}

api::AllocationProperties OpenDevice::allocation_properties() const noexcept {
  api::AllocationProperties properties{};
  properties.type = api::AllocationType::pinned;
  properties.requested_handle_types = api::HandleType::posix_file_descriptor;
  properties.location = {api::LocationType::device, ordinal()};
  return properties;
}

Error OpenDevice::foreign_stream(const char* operation, api::Status status,
                                 api::Context owner) const {
  if (status != api::Status::success) {
    Error cause = driver().error("cuStreamGetCtx", status);
    const bool unknown = status == api::Status::invalid_handle ||
                         status == api::Status::invalid_context ||
                         status == api::Status::invalid_value;
    if (!unknown) return cause;
    return Error(Code::wrong_state, operation)
        .about(to_string(id_))
        .because("the driver does not know the stream: " + cause.facts()->reason)
        .remedy("pass a stream that was not destroyed")
        .device(id_.uuid)
        .from(Origin::driver, static_cast<std::int32_t>(status));
  }
  // The device of a context is asked for in it.
  api::Device device = -1;
  api::Context popped = nullptr;
  if (driver().ctx_push_current(owner) == api::Status::success) {
    if (driver().ctx_get_device(&device) != api::Status::success) device = -1;
    driver().report("cuCtxPopCurrent", driver().ctx_pop_current(&popped));
  }
  const DeviceId other = device < 0 ? DeviceId::host() : id_of(driver(), device);
  const bool same_device = other == id_;
  return Error(Code::wrong_state, operation)
      .about(to_string(id_))
      .because(same_device  ? "the stream belongs to another context of this GPU"
               : device < 0 ? std::string("the stream belongs to another context")
                            : "the stream belongs to another GPU, " + to_string(other))
      .remedy(same_device ? "make the stream in the primary context, as cudaStreamCreate does"
                          : "pass a stream of the GPU that the memory lives on")
      .device(id_.uuid);
}

Result<void> OpenDevice::finish(api::Stream stream, Deadline deadline) {
  const EventPool::Lease event = VRAMLINK_TRY(events_.take());
  VRAMLINK_CHECK(driver().check("cuEventRecord", driver().event_record(event.get(), stream)));
  const Deadline spin_end = Deadline::after(kSpin);
  while (true) {
    const api::Status status = state_of_work([&] { return driver().event_query(event.get()); });
    if (status != api::Status::not_ready) return driver().check("cuEventQuery", status);
    if (deadline.has_passed()) {
      return Error(Code::timed_out, "wait for GPU")
          .about(to_string(id_))
          .because("our own short work is not done: the GPU is busy, or stands still")
          .device(id_.uuid);
    }
    if (spin_end.has_passed()) {
      os::nap_until(Deadline::after(kNap));
    } else {
      os::cpu_relax();
    }
  }
}

Result<void> OpenDevice::check_health() const {
  const api::Status status =
      state_of_work([this] { return driver().event_query(health_event_.get().value); });
  // Not ready is a GPU that is busy, which is no fault.
  if (status == api::Status::success || status == api::Status::not_ready) return {};
  const Error cause = driver().error("cuEventQuery", status);
  return Error(Code::driver, "query GPU")
      .about(to_string(id_))
      .because("it performs nothing more for this process: " + cause.facts()->reason)
      .remedy("end the process: a context does not recover from a fault")
      .device(id_.uuid)
      .from(Origin::driver, static_cast<std::int32_t>(status));
}

}  // namespace vramlink::cuda
