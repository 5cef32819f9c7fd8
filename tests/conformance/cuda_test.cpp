// The CUDA back end keeps the promises of every back end. The driver is the one that
// VRAMLINK_CUDA_LIBRARY names: the stand-in, or the real one.
#include <string>

#include "backend/cuda/factory.hpp"
#include "conformance/backend_suite.hpp"
#include "support/raw_cuda.hpp"

namespace vramlink::test {
namespace {

struct CudaUnderTest {
  static constexpr std::uint64_t kUnitBytes = std::uint64_t{2} << 20;

  static void prepare() { static_cast<void>(RawCuda::get()); }
  static void require() { static_cast<void>(RawCuda::require()); }
  static std::unique_ptr<backend::Backend> create() {
    if (RawCuda::get() == nullptr) return nullptr;
    return std::move(cuda::find_devices().value().backends.at(0));
  }
  static StreamView stream() { return RawCuda::get()->stream(); }
  static void finish(StreamView stream) { RawCuda::get()->finish(stream); }
  static std::optional<StreamView> foreign_stream() { return RawCuda::get()->foreign_stream(); }
  static void fill(std::byte* target, std::span<const std::byte> bytes) {
    RawCuda::get()->write(target, bytes);
  }
  static std::vector<std::byte> read(const std::byte* source, std::size_t size) {
    return RawCuda::get()->read(source, size);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, BackendSuite, CudaUnderTest);
INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, ForkingBackendSuite, CudaUnderTest);

}  // namespace
}  // namespace vramlink::test
