// Drivers and devices that lack something.
#include <csignal>
#include <string>

#include "driver_fixture.hpp"
#include "support/child_process.hpp"

namespace vramlink::simcuda {
namespace {

using test::ChildLink;
using test::ChildProcess;
using Attribute = api::DeviceAttribute;

class Profiles : public DriverTest {
 protected:
  static void choose(const char* name) { ::setenv("VRAMLINK_SIMCUDA_PROFILE", name, 1); }
  static int attribute(Attribute attribute) {
    int value = -1;
    EXPECT_STATUS(success, cuDeviceGetAttribute(&value, attribute, 0));
    return value;
  }
  static Status create_shareable() {
    const api::AllocationProperties properties = MappedMemory::properties();
    api::MemoryHandle handle = 0;
    const Status status = cuMemCreate(&handle, MappedMemory::kSizeBytes, &properties, 0);
    if (status == Status::success) {
      EXPECT_STATUS(success, cuMemRelease(handle));
    }
    return status;
  }
  static Status allocate_from_pool(const Device& device) {
    api::DevicePointer address = 0;
    const Status status = cuMemAllocAsync(&address, 64, device.stream);
    if (status == Status::success) {
      EXPECT_STATUS(success, cuMemFreeAsync(address, device.stream));
    }
    return status;
  }
};

TEST_F(Profiles, WithoutOneNothingIsMissing) {
  const Device device;
  EXPECT_EQ(attribute(Attribute::virtual_memory_management_supported), 1);
  EXPECT_EQ(attribute(kPoolsSupported), 1);
  EXPECT_STATUS(success, create_shareable());
  EXPECT_STATUS(success, allocate_from_pool(device));
}

TEST_F(Profiles, AnOldDriverIsOfVersion11AndHasNoQuery) {
  choose("old_driver");
  int version = 0;
  EXPECT_STATUS(success, cuDriverGetVersion(&version));
  EXPECT_EQ(version, 11080);
  void* function = &version;
  api::ProcQuery found{};
  EXPECT_STATUS(not_found, cuGetProcAddress_v2("cuInit", &function, 2000, 0, &found));
  EXPECT_EQ(function, nullptr);
  EXPECT_STATUS(success, cuGetProcAddress("cuInit", &function, 2000, 0));
  const Device device;
  EXPECT_STATUS(success, create_shareable());
}

TEST_F(Profiles, WithoutVirtualMemoryThereIsPlainMemory) {
  choose("no_vmm");
  const Device device;
  EXPECT_EQ(attribute(Attribute::virtual_memory_management_supported), 0);
  EXPECT_EQ(attribute(Attribute::handle_type_posix_file_descriptor_supported), 0);
  EXPECT_STATUS(not_supported, create_shareable());
  api::DevicePointer address = 0;
  EXPECT_STATUS(not_supported, cuMemAddressReserve(&address, 2 << 20, 0, 0, 0));
  EXPECT_STATUS(success, cuMemAlloc_v2(&address, 64));
  EXPECT_STATUS(success, cuMemFree_v2(address));
}

TEST_F(Profiles, WithoutPoolsAllElseIsThere) {
  choose("no_pools");
  const Device device;
  EXPECT_EQ(attribute(kPoolsSupported), 0);
  EXPECT_EQ(attribute(kPoolHandleTypes), 0);
  EXPECT_STATUS(not_supported, allocate_from_pool(device));
  MemoryPoolHandle pool = nullptr;
  EXPECT_STATUS(not_supported, cuDeviceGetDefaultMemPool(&pool, 0));
  EXPECT_STATUS(success, create_shareable());
}

TEST_F(Profiles, APartOfAGpuIsAloneAndHasAUuidOfItsOwn) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "MIG-5c0d0a01-1122-4344-8566-778899aabb01,0", 1);
  choose("mig");
  const Device device;
  int count = 0;
  EXPECT_STATUS(success, cuDeviceGetCount(&count));
  EXPECT_EQ(count, 1) << "a process has one of them";
  api::Uuid own{};
  api::Uuid whole{};
  EXPECT_STATUS(success, cuDeviceGetUuid_v2(&own, 0));
  EXPECT_STATUS(success, cuDeviceGetUuid(&whole, 0));
  EXPECT_EQ(own.bytes[3], 1);
  EXPECT_EQ(whole.bytes[3], 0);
  EXPECT_EQ(own.bytes[15], 1) << "it was named";
  std::array<char, 64> name{};
  EXPECT_STATUS(success, cuDeviceGetName(name.data(), 64, 0));
  EXPECT_STREQ(name.data(), "Stand-in GPU 1 MIG 1g.10gb");
  int can = 1;
  EXPECT_STATUS(success, cuDeviceCanAccessPeer(&can, 0, 0));
  EXPECT_EQ(can, 0);
  EXPECT_STATUS(success, create_shareable());
}

TEST_F(Profiles, UnderWslNothingLeavesTheProcess) {
  choose("wsl");
  const Device device;
  EXPECT_EQ(attribute(Attribute::virtual_memory_management_supported), 1);
  EXPECT_EQ(attribute(Attribute::handle_type_posix_file_descriptor_supported), 0);
  EXPECT_STATUS(not_supported, create_shareable());
  int fd = -1;
  EXPECT_STATUS(not_supported,
                cuMemExportToShareableHandle(&fd, 0, api::HandleType::posix_file_descriptor, 0));
  EXPECT_STATUS(success, allocate_from_pool(device));
}

TEST_F(Profiles, WithoutWordsOf64BitsThoseOf32AreThere) {
  choose("no_memops");
  const Device device;
  RegisteredPage page;
  EXPECT_EQ(attribute(Attribute::can_use_64_bit_stream_mem_ops), 0);
  EXPECT_STATUS(not_supported, cuStreamWriteValue64_v2(device.stream, page.address(0), 1, 0));
  EXPECT_STATUS(not_supported, cuStreamWaitValue64_v2(device.stream, page.address(0), 1, 0));
  api::MemOp write{api::MemOpType::write_value_64, page.address(0), 1, 0, 0, 0};
  EXPECT_STATUS(not_supported, cuStreamBatchMemOp_v2(device.stream, 1, &write, 0));
  EXPECT_STATUS(success, cuStreamWriteValue32_v2(device.stream, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(page[0].load(), 1U);
}

TEST_F(Profiles, OneThatThereIsNotEndsTheProgram) {
  choose("quantum");
  ChildProcess child([](const ChildLink&) {
    ::signal(SIGABRT, SIG_DFL);
    (void)cuInit(0);
    return 0;
  });
  EXPECT_EQ(child.wait(), 128 + SIGABRT);
}

}  // namespace
}  // namespace vramlink::simcuda
