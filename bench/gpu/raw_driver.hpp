// The GPU driver as a floor is measured with it: loaded by ourselves, called without the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <vramlink/device.hpp>
#include <vramlink/stream.hpp>

#include "backend/cuda/driver_api.hpp"
#include "harness/report.hpp"

namespace vramlink::bench {

namespace cu {
using namespace cuda::api;
struct Functions {
#define VRAMLINK_BENCH_MEMBER(member, name, symbol, version, ...) \
  std::add_pointer_t<__VA_ARGS__> member = nullptr;
  VRAMLINK_CUDA_SYMBOLS(VRAMLINK_BENCH_MEMBER)
#undef VRAMLINK_BENCH_MEMBER
  // What the library does not call.
  Status (*ctx_set_current)(Context context) = nullptr;
  Status (*stream_synchronize)(Stream stream) = nullptr;
};
}  // namespace cu

/// The first GPU with its primary context current in the calling thread. Whatever fails ends the
/// program with a line that says what: there is nothing to measure then.
class RawDriver : public cu::Functions {
 public:
  /// Ends the program with 5 where there is no driver or no GPU.
  RawDriver();
  RawDriver(const RawDriver&) = delete;
  RawDriver& operator=(const RawDriver&) = delete;

  [[nodiscard]] const DeviceId& id() const noexcept { return id_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Of the kernel's part: "580.159.04", or the version of the API where that is not told.
  [[nodiscard]] const std::string& release() const noexcept { return release_; }
  [[nodiscard]] cu::Device device() const noexcept { return device_; }
  [[nodiscard]] cu::Context context() const noexcept { return context_; }

  [[nodiscard]] cu::Stream make_stream() const;
  [[nodiscard]] cu::DevicePointer allocate(std::size_t size_bytes) const;
  /// Makes host memory known to the driver and returns its address for the device.
  [[nodiscard]] cu::DevicePointer register_host(void* address, std::size_t size_bytes) const;
  [[nodiscard]] std::size_t free_bytes() const;

  void check(cu::Status status, const char* call) const;

 private:
  cu::Device device_ = 0;
  cu::Context context_ = nullptr;
  DeviceId id_;
  std::string name_;
  std::string release_;
};

/// Names GPU and driver in the report. Asks in a child: who has started a driver cannot fork others
/// that use it. Ends the program with 5 where there is no GPU.
void add_gpu_facts(Report& report);

[[nodiscard]] inline StreamView view_of(cu::Stream stream) noexcept {
  return StreamView::cuda(stream);
}

}  // namespace vramlink::bench
