// See context.hpp.
#include "backend/cuda/context.hpp"

#include "base/try.hpp"

namespace vramlink::cuda {

Result<std::unique_ptr<PrimaryContext>> PrimaryContext::retain(std::shared_ptr<const Driver> driver,
                                                               api::Device device) {
  api::Context context = nullptr;
  VRAMLINK_CHECK(
      driver->check("cuDevicePrimaryCtxRetain", driver->primary_ctx_retain(&context, device)));
  return std::unique_ptr<PrimaryContext>(new PrimaryContext(std::move(driver), device, context));
}

PrimaryContext::~PrimaryContext() {
  if (os::in_forked_child()) return;
  driver_->report("cuDevicePrimaryCtxRelease", driver_->primary_ctx_release(device_));
}

Result<EventHandle> make_event(const PrimaryContext& context) {
  api::Event event = nullptr;
  const Driver& driver = context.driver();
  VRAMLINK_CHECK(
      driver.check("cuEventCreate", driver.event_create(&event, api::kEventDisableTiming)));
  return EventHandle({&context, event});
}

Result<StreamHandle> make_stream(const PrimaryContext& context) {
  api::Stream stream = nullptr;
  const Driver& driver = context.driver();
  VRAMLINK_CHECK(
      driver.check("cuStreamCreate", driver.stream_create(&stream, api::kStreamNonBlocking)));
  return StreamHandle({&context, stream});
}

}  // namespace vramlink::cuda
