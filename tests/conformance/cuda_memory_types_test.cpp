// What the driver says an address is: every kind of memory that a program can have. Pools are in
// driver_pools_test.cpp.
#include <optional>
#include <vector>

#include <vramlink/inspect.hpp>
#include <vramlink/runtime.hpp>

#include "conformance/driver_fixture.hpp"
#include "support/sanitized.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink::test {
namespace {

class CudaMemoryTypes : public CudaBackend {
 protected:
  void SetUp() override {
    CudaBackend::SetUp();
    if (!backend_) return;
    runtime_.emplace(Runtime::open({.directory = directory_.path()}).value());
    static_cast<void>(raw().stream());  // makes the context current
  }
  [[nodiscard]] MemoryInfo inspect(const void* address) const {
    return inspect_memory(*runtime_, address).value();
  }
  /// The kind, at the beginning of the memory and within.
  void expect_type(MemoryType type, const void* memory, const DeviceId& device) const {
    const auto* const first = static_cast<const std::byte*>(memory);
    for (const std::size_t offset : {std::size_t{0}, std::size_t{100}}) {
      const MemoryInfo info = inspect(first + offset);
      EXPECT_EQ(info.type, type) << to_string(info.type) << " instead of " << to_string(type);
      EXPECT_EQ(info.device, device) << to_string(type);
      if (info.size_bytes == 0) continue;
      EXPECT_EQ(info.offset_bytes, offset) << to_string(type);
      EXPECT_GE(info.size_bytes, kBytes) << to_string(type);
    }
  }
  /// Memory of the virtual memory calls with that handle type.
  class Mapped {
   public:
    explicit Mapped(cuda_api::HandleType type) {
      cuda_api::AllocationProperties properties{};
      properties.type = cuda_api::AllocationType::pinned;
      properties.requested_handle_types = type;
      properties.location = {cuda_api::LocationType::device, 0};
      raw().expect(driver().mem_create(&handle_, kUnit, &properties, 0));
      raw().expect(driver().mem_address_reserve(&address_, kUnit, 0, 0, 0));
      raw().expect(driver().mem_map(address_, kUnit, 0, handle_, 0));
    }
    Mapped(const Mapped&) = delete;
    Mapped& operator=(const Mapped&) = delete;
    ~Mapped() {
      raw().expect(driver().mem_unmap(address_, kUnit));
      raw().expect(driver().mem_address_free(address_, kUnit));
      raw().expect(driver().mem_release(handle_));
    }
    [[nodiscard]] const void* data() const { return reinterpret_cast<const void*>(address_); }

   private:
    static const cuda::Driver& driver() { return raw().driver(); }
    cuda_api::MemoryHandle handle_ = 0;
    cuda_api::DevicePointer address_ = 0;
  };

  TemporaryDirectory directory_;
  std::optional<Runtime> runtime_;
};

TEST_F(CudaMemoryTypes, OfHostMemory) {
  const std::vector<std::byte> plain(kBytes);
  expect_type(MemoryType::host, plain.data(), DeviceId::host());
  void* pinned = nullptr;
  raw().expect(raw().mem_host_alloc(&pinned, kBytes, 0));
  expect_type(MemoryType::pinned, pinned, DeviceId::host());
  raw().expect(raw().mem_free_host(pinned));
  const os::Mapping pages =
      os::SharedSegment::create("pages", 2 * 4096).value().map(os::Access::read_write).value();
  raw().expect(raw().driver().mem_host_register(pages.data(), pages.size_bytes(), 3));
  expect_type(MemoryType::registered, pages.data(), DeviceId::host());
  raw().expect(raw().driver().mem_host_unregister(pages.data()));
  expect_type(MemoryType::host, pages.data(), DeviceId::host());
  EXPECT_EQ(inspect(nullptr).type, MemoryType::nothing);
}

TEST_F(CudaMemoryTypes, OfDeviceMemory) {
  cuda_api::DevicePointer plain = 0;
  raw().expect(raw().mem_alloc(&plain, 4 * kBytes));
  const void* const address = reinterpret_cast<const void*>(plain);
  expect_type(MemoryType::device, address, raw().id());
  EXPECT_TRUE(inspect(address).exports_legacy_handle);
  EXPECT_FALSE(inspect(address).exports_descriptor);
  raw().expect(raw().mem_free(plain));
#ifdef VRAMLINK_TEST_SANITIZED
  EXPECT_NE(inspect(address).type, MemoryType::device) << "freed; sanitizers map what they like";
#else
  EXPECT_EQ(inspect(address).type, MemoryType::nothing) << "freed";
#endif
  cuda_api::DevicePointer managed = 0;
  raw().expect(raw().mem_alloc_managed(&managed, kBytes, cuda_api::kManagedGlobal));
  EXPECT_EQ(inspect(reinterpret_cast<const void*>(managed)).type, MemoryType::managed);
  raw().expect(raw().mem_free(managed));
}

TEST_F(CudaMemoryTypes, OfMappedMemory) {
  const Mapped shareable(cuda_api::HandleType::posix_file_descriptor);
  expect_type(MemoryType::mapped, shareable.data(), raw().id());
  EXPECT_TRUE(inspect(shareable.data()).exports_descriptor);
  EXPECT_FALSE(inspect(shareable.data()).exports_legacy_handle);
  const Mapped closed(cuda_api::HandleType::none);
  expect_type(MemoryType::mapped_private, closed.data(), raw().id());
  EXPECT_FALSE(inspect(closed.data()).exports_descriptor);
}

TEST_F(CudaMemoryTypes, OfSlots) {
  const auto memory = backend_->allocate(kBytes).value();
  expect_type(MemoryType::mapped, memory->data(), raw().id());
  const auto legacy = std::move(cuda::find_devices().value().legacy_backends.at(0));
  const auto by_handle = legacy->allocate(kBytes).value();
  expect_type(MemoryType::device, by_handle->data(), raw().id());
}

}  // namespace
}  // namespace vramlink::test
