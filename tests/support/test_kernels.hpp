// Two kernels that run on a real GPU and, by their names, on the stand-in
// (tests/simcuda/kernels.cpp).
#pragma once

#include <array>
#include <cstdint>

#include <vramlink/stream.hpp>

#include "support/raw_cuda.hpp"

namespace vramlink::test {

/// vramlink_fill stores `value` to `count` words of 32 bits; vramlink_spin_until runs until a word
/// of 64 bits has at least the value.
inline constexpr const char* kTestKernels = R"(
.version 8.0
.target sm_70
.address_size 64

.visible .entry vramlink_fill(.param .u64 target, .param .u32 value, .param .u64 count)
{
  .reg .pred %done;
  .reg .b32 %word;
  .reg .b64 %at, %left;
  ld.param.u64 %at, [target];
  ld.param.u32 %word, [value];
  ld.param.u64 %left, [count];
again:
  setp.eq.u64 %done, %left, 0;
  @%done bra end;
  st.global.u32 [%at], %word;
  add.u64 %at, %at, 4;
  sub.u64 %left, %left, 1;
  bra again;
end:
  ret;
}

.visible .entry vramlink_spin_until(.param .u64 word, .param .u64 value)
{
  .reg .pred %early;
  .reg .b64 %at, %wanted, %seen;
  ld.param.u64 %at, [word];
  ld.param.u64 %wanted, [value];
again:
  ld.relaxed.sys.global.u64 %seen, [%at];
  setp.lt.u64 %early, %seen, %wanted;
  @%early bra again;
  ret;
}
)";

/// The kernels, loaded into the context of RawCuda's first device. The destructor unloads them.
class TestKernels {
 public:
  explicit TestKernels(RawCuda& raw) : raw_(raw) {
    static_cast<void>(raw.stream());  // makes the context current
    raw.expect(raw.module_load_data(&module_, kTestKernels));
    raw.expect(raw.module_get_function(&fill_, module_, "vramlink_fill"));
    raw.expect(raw.module_get_function(&spin_, module_, "vramlink_spin_until"));
  }
  TestKernels(const TestKernels&) = delete;
  TestKernels& operator=(const TestKernels&) = delete;
  /// A faulty context keeps them, whatever is said here.
  ~TestKernels() { static_cast<void>(raw_.module_unload(module_)); }

  [[nodiscard]] cuda_api::Status fill(StreamView stream, cuda_api::DevicePointer target,
                                      std::uint32_t value, std::uint64_t count) const {
    std::array<void*, 3> arguments{&target, &value, &count};
    return launch(fill_, stream, arguments.data());
  }
  [[nodiscard]] cuda_api::Status spin_until(StreamView stream, cuda_api::DevicePointer word,
                                            std::uint64_t value) const {
    std::array<void*, 2> arguments{&word, &value};
    return launch(spin_, stream, arguments.data());
  }

 private:
  [[nodiscard]] cuda_api::Status launch(cuda_api::Function function, StreamView stream,
                                        void** arguments) const {
    return raw_.launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, raw_stream(stream), arguments,
                              nullptr);
  }

  RawCuda& raw_;
  cuda_api::Module module_ = nullptr;
  cuda_api::Function fill_ = nullptr;
  cuda_api::Function spin_ = nullptr;
};

}  // namespace vramlink::test
