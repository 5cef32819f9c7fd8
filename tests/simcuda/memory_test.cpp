// Device memory: handles, mappings, access rights, the account; and what an address is.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "driver_fixture.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::size_t kGranule = MappedMemory::kSizeBytes;

class DeviceMemory : public DriverTest {};

TEST_F(DeviceMemory, EverythingIsGivenBack) {
  Device device;
  const Ledger before = ledger();
  const test::Holdings holdings_before = test::current_holdings();
  {
    MappedMemory memory;
    const int fd = memory.export_fd();
    MappedMemory import(MappedMemory::import(fd));
    ::close(fd);
    api::DevicePointer plain = 0;
    EXPECT_STATUS(success, cuMemAlloc_v2(&plain, 1000));
    void* pinned = nullptr;
    EXPECT_STATUS(success, cuMemAllocHost_v2(&pinned, 1000));
    RegisteredPage page;
    const Ledger during = ledger();
    EXPECT_EQ(during.mappings, 2U);
    EXPECT_EQ(during.memories, 3U);
    EXPECT_EQ(during.allocations, 1U);
    EXPECT_EQ(during.pinned, 1U);
    EXPECT_EQ(during.registrations, 1U);
    EXPECT_NE(before, during);
    EXPECT_STATUS(success, cuMemFree_v2(plain));
    EXPECT_STATUS(success, cuMemFreeHost(pinned));
  }
  EXPECT_EQ(before, ledger());
  EXPECT_EQ(test::describe_difference(holdings_before, test::current_holdings()), "");
}

TEST_F(DeviceMemory, AnImportIsTheSameBytes) {
  Device device;
  MappedMemory memory;
  const int fd = memory.export_fd();
  MappedMemory import(MappedMemory::import(fd), api::AccessFlags::read);
  EXPECT_NE(memory.address(), import.address());
  EXPECT_STATUS(success, cuMemsetD32_v2(memory.address() + 4096, 42, 8));
  std::array<unsigned, 8> words{};
  EXPECT_STATUS(success, cuMemcpyDtoH_v2(words.data(), import.address() + 4096, sizeof words));
  EXPECT_EQ(words[7], 42U);
  ::close(fd);
}

TEST_F(DeviceMemory, ACpuCannotTouchIt) {
  constexpr int kNotFaulted = 55;
  test::ChildProcess toucher([](const test::ChildLink&) {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer has a handler of its own
    Device device;
    MappedMemory memory;
    *reinterpret_cast<volatile char*>(memory.address()) = 1;
    return kNotFaulted;
  });
  const int end = toucher.wait();
  EXPECT_NE(end, kNotFaulted);
  EXPECT_NE(end, 0);
  EXPECT_NE(end, test::ChildProcess::kFailedExpectation);
}

TEST_F(DeviceMemory, AReadOnlyMappingRefusesWrites) {
  Device device;
  MappedMemory memory;
  const int fd = memory.export_fd();
  MappedMemory import(MappedMemory::import(fd), api::AccessFlags::read);
  ::close(fd);
  EXPECT_STATUS(invalid_value, cuMemsetD8Async(import.address(), 1, 16, device.stream));
  EXPECT_STATUS(invalid_value,
                cuMemcpyDtoDAsync_v2(import.address(), memory.address(), 16, device.stream));
  EXPECT_STATUS(success,
                cuMemcpyDtoDAsync_v2(memory.address(), import.address(), 16, device.stream));
  unsigned long long access = 0;
  const api::Location here{api::LocationType::device, 0};
  EXPECT_STATUS(success, cuMemGetAccess(&access, &here, import.address()));
  EXPECT_EQ(access, static_cast<unsigned long long>(api::AccessFlags::read));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
}

TEST_F(DeviceMemory, WorkOnAnUnmappedAddressFaults) {
  Device device;
  device.is_faulty = true;
  RegisteredPage page;
  MappedMemory memory;
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuMemsetD8Async(memory.address(), 1, 16, device.stream));
  memory.unmap();  // does not wait
  page[0].store(1);
  EXPECT_STATUS(illegal_address, cuStreamSynchronize(device.stream));
  EXPECT_STATUS(success, cuDevicePrimaryCtxReset_v2(0));
  std::quick_exit(::testing::Test::HasFailure() ? 1 : 0);  // the page went with its context
}

TEST_F(DeviceMemory, WrongMappingsAreRefused) {
  Device device;
  MappedMemory memory;
  api::DevicePointer address = 0;
  EXPECT_STATUS(invalid_value, cuMemAddressReserve(&address, kGranule + 1, 0, 0, 0));
  ASSERT_STATUS(success, cuMemAddressReserve(&address, 2 * kGranule, 0, 0, 0));
  EXPECT_EQ(address % kGranule, 0U);
  EXPECT_STATUS(not_supported, cuMemMap(address, 2 * kGranule, 0, memory.handle(), 0));
  EXPECT_STATUS(invalid_value, cuMemMap(address + 4096, kGranule, 0, memory.handle(), 0));
  EXPECT_STATUS(invalid_value, cuMemMap(address, kGranule, 0, memory.handle() + 1, 0));
  EXPECT_STATUS(success, cuMemMap(address, kGranule, 0, memory.handle(), 0));
  EXPECT_STATUS(invalid_value, cuMemMap(address, kGranule, 0, memory.handle(), 0));
  EXPECT_STATUS(invalid_value, cuMemUnmap(address, 2 * kGranule));
  const api::AccessDescriptor access{{api::LocationType::device, 0}, api::AccessFlags::read_write};
  EXPECT_STATUS(invalid_value, cuMemSetAccess(address, 2 * kGranule, &access, 1));
  EXPECT_STATUS(invalid_value, cuMemsetD8Async(address, 1, 16, device.stream));
  EXPECT_STATUS(invalid_value, cuMemAddressFree(address, 2 * kGranule));
  EXPECT_STATUS(success, cuMemUnmap(address, kGranule));
  EXPECT_STATUS(invalid_value, cuMemUnmap(address, kGranule));
  EXPECT_STATUS(invalid_value, cuMemAddressFree(address, kGranule));
  EXPECT_STATUS(success, cuMemAddressFree(address, 2 * kGranule));
}

TEST_F(DeviceMemory, AnFdOfSomethingElseIsRefused) {
  Device device;
  const int fd = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  api::MemoryHandle handle = 0;
  EXPECT_STATUS(unknown, cuMemImportFromShareableHandle(
                             &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                             api::HandleType::posix_file_descriptor));
  ::close(fd);
  EXPECT_STATUS(unknown,
                cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(std::intptr_t{-1}),
                                               api::HandleType::posix_file_descriptor));
}

TEST_F(DeviceMemory, ADeviceRunsOutOfIt) {
  ::setenv("VRAMLINK_SIMCUDA_MEMORY_MIB", "8", 1);
  Device device;
  const api::AllocationProperties properties = MappedMemory::properties();
  api::MemoryHandle first = 0;
  api::MemoryHandle second = 0;
  EXPECT_STATUS(success, cuMemCreate(&first, 3 * kGranule, &properties, 0));
  EXPECT_STATUS(out_of_memory, cuMemCreate(&second, 2 * kGranule, &properties, 0));
  api::DevicePointer plain = 0;
  EXPECT_STATUS(out_of_memory, cuMemAlloc_v2(&plain, kGranule + 1));
  EXPECT_STATUS(success, cuMemAlloc_v2(&plain, kGranule));
  std::size_t free_bytes = 1;
  std::size_t total_bytes = 0;
  EXPECT_STATUS(success, cuMemGetInfo_v2(&free_bytes, &total_bytes));
  EXPECT_EQ(free_bytes, 0U);
  EXPECT_EQ(total_bytes, std::size_t{8} << 20);
  EXPECT_STATUS(success, cuMemRelease(first));
  EXPECT_STATUS(invalid_value, cuMemRelease(first));
  EXPECT_STATUS(success, cuMemCreate(&second, 2 * kGranule, &properties, 0));
  EXPECT_STATUS(success, cuMemRelease(second));
  EXPECT_STATUS(success, cuMemFree_v2(plain));
}

// Sizes whose count of pages does not fit into an entry of the account, or whose rounding up ends
// at nothing.
TEST_F(DeviceMemory, NoSizeIsTooLargeToBeCounted) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 1);
  Device device;
  const Ledger before = ledger();
  const api::AllocationProperties properties = MappedMemory::properties();
  constexpr std::size_t kTebibyte = std::size_t{1} << 40;
  constexpr std::size_t kLast = SIZE_MAX - kGranule + 1;
  for (const std::size_t size :
       {kTebibyte, 16 * kTebibyte - kGranule, 16 * kTebibyte, 16 * kTebibyte + kGranule,
        32 * kTebibyte, 256 * kTebibyte + kGranule, kLast}) {
    SCOPED_TRACE(size);
    api::MemoryHandle handle = 0;
    api::DevicePointer address = 0;
    EXPECT_STATUS(out_of_memory, cuMemCreate(&handle, size, &properties, 0));
    EXPECT_STATUS(out_of_memory, cuMemAlloc_v2(&address, size));
    EXPECT_EQ(test_api().device_bytes_held(0), 0U);
    EXPECT_EQ(test_api().device_bytes_held(1), 0U);
  }
  api::DevicePointer address = 0;
  EXPECT_STATUS(out_of_memory, cuMemAlloc_v2(&address, SIZE_MAX));
  EXPECT_STATUS(out_of_memory, cuMemAddressReserve(&address, kLast, 2 * kGranule, 0, 0));
  EXPECT_EQ(ledger(), before);
}

TEST_F(DeviceMemory, APointerIsNamedForWhatItIs) {
  Device device;
  const auto type_of = [](api::DevicePointer address) {
    auto type = api::MemoryType::none;
    const Status status = cuPointerGetAttribute(&type, api::PointerAttribute::memory_type, address);
    return status == Status::success ? type : api::MemoryType::none;
  };
  MappedMemory memory;
  EXPECT_EQ(type_of(memory.address() + kGranule - 1), api::MemoryType::device);
  RegisteredPage page;
  EXPECT_EQ(type_of(page.address(0)), api::MemoryType::host);
  api::DevicePointer plain = 0;
  EXPECT_STATUS(success, cuMemAlloc_v2(&plain, 1000));
  EXPECT_EQ(type_of(plain), api::MemoryType::device);
  api::DevicePointer managed = 0;
  EXPECT_STATUS(success, cuMemAllocManaged(&managed, 1000, 1));
  unsigned char is_managed = 0;
  EXPECT_STATUS(success,
                cuPointerGetAttribute(&is_managed, api::PointerAttribute::is_managed, managed));
  EXPECT_EQ(is_managed, 1);
  *reinterpret_cast<volatile char*>(managed) = 1;

  std::array attributes{api::PointerAttribute::memory_type, api::PointerAttribute::range_size};
  auto type = api::MemoryType::host;
  std::size_t size = 0;
  std::array<void*, 2> values{&type, &size};
  EXPECT_STATUS(success, cuPointerGetAttributes(2, attributes.data(), values.data(), plain + 5));
  EXPECT_EQ(type, api::MemoryType::device);
  EXPECT_EQ(size, 1000U);
  EXPECT_STATUS(success, cuMemFree_v2(plain));
  EXPECT_STATUS(success, cuMemFree_v2(managed));
  EXPECT_EQ(type_of(plain), api::MemoryType::none);  // freed
  EXPECT_STATUS(success, cuPointerGetAttributes(2, attributes.data(), values.data(), plain));
  EXPECT_EQ(type, api::MemoryType::none);
  int local = 0;
  EXPECT_EQ(type_of(reinterpret_cast<std::uintptr_t>(&local)), api::MemoryType::none);
}

TEST_F(DeviceMemory, ACopyChecksBothEnds) {
  Device device;
  MappedMemory memory;
  std::array<char, 64> host{};
  EXPECT_STATUS(invalid_value,
                cuMemcpyHtoDAsync_v2(memory.address(), reinterpret_cast<void*>(memory.address()),
                                     64, device.stream));
  EXPECT_STATUS(invalid_value, cuMemcpyDtoHAsync_v2(host.data(), memory.address() + kGranule - 32,
                                                    64, device.stream));
  EXPECT_STATUS(invalid_value, cuMemcpyAsync(memory.address(), 4096, 64, device.stream));
  EXPECT_STATUS(invalid_value, cuMemsetD32Async(memory.address() + 2, 0, 4, device.stream));
  EXPECT_STATUS(success,
                cuMemcpyAsync(memory.address(), reinterpret_cast<std::uintptr_t>(host.data()), 64,
                              device.stream));
}

}  // namespace
}  // namespace vramlink::simcuda
