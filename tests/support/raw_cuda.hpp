// The GPU driver without the library's back end: tests make streams, memory and faults with it, and
// look at what the back end did.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <vramlink/device.hpp>
#include <vramlink/stream.hpp>

#include "backend/cuda/driver.hpp"
#include "support/cuda_test_symbols.hpp"

namespace vramlink::test {

namespace cuda_api {
struct TestFunctions {
#define VRAMLINK_CUDA_TEST_MEMBER(member, name, symbol, version, ...) \
  std::add_pointer_t<__VA_ARGS__> member = nullptr;
  VRAMLINK_CUDA_TEST_SYMBOLS(VRAMLINK_CUDA_TEST_MEMBER)
#undef VRAMLINK_CUDA_TEST_MEMBER

  /// Those of the driver that Driver::load() takes; starts nothing.
  [[nodiscard]] static TestFunctions find();
};
}  // namespace cuda_api

[[nodiscard]] inline cuda_api::DevicePointer device_pointer(const void* address) noexcept {
  return reinterpret_cast<cuda_api::DevicePointer>(address);
}
[[nodiscard]] inline cuda_api::Stream raw_stream(StreamView stream) noexcept {
  return reinterpret_cast<cuda_api::Stream>(stream.handle());
}

/// The first usable GPU of the driver that VRAMLINK_CUDA_LIBRARY or the system names, its primary
/// context retained until the process ends, so that tests find the same descriptors open before and
/// after.
class RawCuda : public cuda_api::TestFunctions {
 public:
  /// Null where there is no GPU; why_not() says why.
  [[nodiscard]] static RawCuda* get();
  [[nodiscard]] static const std::string& why_not();
  /// For a SetUp(): where there is no GPU the test is skipped; but what was asked for on the
  /// stand-in driver fails without it. True if the test can go on.
  static bool require();

  /// Whether the driver is the one of tests/simcuda.
  [[nodiscard]] static bool is_stand_in();
  /// Whether other programs take and give back memory of the GPU meanwhile, so that its free bytes
  /// say nothing: VRAMLINK_TEST_GPU_SHARED=1 tells. Never true of the stand-in.
  [[nodiscard]] static bool is_shared();

  /// What this class has made in the process and keeps, which no test leaves behind. Makes nothing.
  struct Own {
    std::uint32_t contexts = 0;
    std::uint32_t streams = 0;
    std::uint32_t pinned = 0;
  };
  [[nodiscard]] static Own own() noexcept;

  [[nodiscard]] const cuda::Driver& driver() const noexcept { return *driver_; }
  [[nodiscard]] const std::vector<cuda_api::Device>& devices() const noexcept { return devices_; }
  [[nodiscard]] const DeviceId& id(std::size_t index = 0) const { return ids_.at(index); }
  /// The primary context of the first device.
  [[nodiscard]] cuda_api::Context context() const noexcept { return context_; }

  /// A stream of the first device's primary context, the same each time. The context is left
  /// current in the calling thread.
  [[nodiscard]] StreamView stream();
  /// A second one.
  [[nodiscard]] StreamView other_stream();
  /// A stream that does not belong to that context: of a second GPU where there is one, else of a
  /// second context on the same.
  [[nodiscard]] StreamView foreign_stream();
  [[nodiscard]] cuda_api::Context foreign_context();

  void finish(StreamView stream);
  void write(std::byte* target, std::span<const std::byte> bytes);
  [[nodiscard]] std::vector<std::byte> read(const std::byte* source, std::size_t size_bytes);
  /// Pinned host memory that stays until the process ends.
  [[nodiscard]] std::byte* keep_pinned(std::size_t size_bytes);
  /// cuMemAlloc.
  [[nodiscard]] std::byte* allocate(std::size_t size_bytes);
  void free(std::byte* memory);
  /// Whether work is left in the stream.
  [[nodiscard]] bool is_busy(StreamView stream);

  /// Fails the test unless `status` is success.
  void expect(cuda_api::Status status, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) const;

 private:
  RawCuda() = default;
  [[nodiscard]] static std::unique_ptr<RawCuda> make(std::string& why_not);
  [[nodiscard]] cuda_api::Stream make_stream();
  void warm_up();

  std::shared_ptr<const cuda::Driver> driver_;
  std::vector<cuda_api::Device> devices_;
  std::vector<DeviceId> ids_;
  cuda_api::Context context_ = nullptr;
  cuda_api::Context foreign_context_ = nullptr;
  cuda_api::Stream stream_ = nullptr;
  cuda_api::Stream other_stream_ = nullptr;
  cuda_api::Stream foreign_stream_ = nullptr;
  cuda_api::Stream private_stream_ = nullptr;  // waited for while others stand still
};

}  // namespace vramlink::test
