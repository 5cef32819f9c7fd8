#include "support/stream_gate.hpp"

#include "support/raw_cuda.hpp"

namespace vramlink::test {
namespace {

constexpr std::size_t kPageBytes = 4096;

RawCuda& raw() {
  static_cast<void>(RawCuda::get()->stream());  // makes the context current
  return *RawCuda::get();
}

}  // namespace

StreamGate::StreamGate()
    : page_(os::SharedSegment::create("gate", kPageBytes)
                .value()
                .map(os::Access::read_write)
                .value()) {
  raw().expect(raw().driver().mem_host_register(
      page_.data(), kPageBytes, cuda_api::kRegisterPortable | cuda_api::kRegisterDeviceMap));
}

StreamGate::~StreamGate() {
  open();
  // Whatever the calls say: a test may have lost the context.
  const RawCuda& cuda = *RawCuda::get();
  static_cast<void>(cuda.ctx_set_current(cuda.context()));
  if (!stream_.is_already_complete()) {
    static_cast<void>(cuda.stream_synchronize(raw_stream(stream_)));
  }
  static_cast<void>(cuda.driver().mem_host_unregister(page_.data()));
}

void StreamGate::close(StreamView stream) {
  stream_ = stream;
  cuda_api::DevicePointer address = 0;
  raw().expect(raw().driver().mem_host_get_device_pointer(&address, page_.data(), 0));
  raw().expect(raw().driver().stream_wait_value_64(raw_stream(stream), address, ++closed_count_,
                                                   cuda_api::kWaitGreaterOrEqual));
}

void StreamGate::open() { word().store(closed_count_, std::memory_order_release); }

}  // namespace vramlink::test
