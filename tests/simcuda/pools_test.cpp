// Stream-ordered memory: pools, frees in the order of streams, and the way to another process.
#include <fcntl.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "driver_fixture.hpp"
#include "support/child_process.hpp"

namespace vramlink::simcuda {
namespace {

using test::ChildLink;
using test::ChildProcess;

constexpr auto kFd = api::HandleType::posix_file_descriptor;

PoolProperties properties(api::HandleType handle_types = kFd, std::size_t size_bytes_max = 0) {
  PoolProperties wanted{};
  wanted.type = api::AllocationType::pinned;
  wanted.handle_types = handle_types;
  wanted.location = {api::LocationType::device, 0};
  wanted.size_bytes_max = size_bytes_max;
  return wanted;
}

class OwnPool {
 public:
  explicit OwnPool(const PoolProperties& wanted = properties()) {
    EXPECT_STATUS(success, cuMemPoolCreate(&handle_, &wanted));
  }
  OwnPool(const OwnPool&) = delete;
  OwnPool& operator=(const OwnPool&) = delete;
  ~OwnPool() { EXPECT_STATUS(success, cuMemPoolDestroy(handle_)); }
  [[nodiscard]] MemoryPoolHandle get() const { return handle_; }
  [[nodiscard]] api::DevicePointer allocate(const Device& device, std::size_t size_bytes) const {
    api::DevicePointer address = 0;
    EXPECT_STATUS(success, cuMemAllocFromPoolAsync(&address, size_bytes, handle_, device.stream));
    return address;
  }
  [[nodiscard]] int export_fd() const {
    int fd = -1;
    EXPECT_STATUS(success, cuMemPoolExportToShareableHandle(&fd, handle_, kFd, 0));
    return fd;
  }
  [[nodiscard]] std::uint64_t attribute(PoolAttribute attribute) const {
    std::uint64_t value = 0;
    EXPECT_STATUS(success, cuMemPoolGetAttribute(handle_, attribute, &value));
    return value;
  }

 private:
  MemoryPoolHandle handle_ = nullptr;
};

void* as_handle(int fd) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)); }

class Pools : public DriverTest {
 protected:
  static void expect_bytes(const Device& device, api::DevicePointer address, unsigned char value,
                           std::size_t size_bytes = 16) {
    std::vector<unsigned char> bytes(size_bytes);
    EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
    EXPECT_STATUS(success, cuMemcpyDtoH_v2(bytes.data(), address, size_bytes));
    EXPECT_EQ(bytes, std::vector<unsigned char>(size_bytes, value));
  }
};

TEST_F(Pools, AllocationsAreMemoryThatStreamsUse) {
  Device device;
  const Ledger before = ledger();
  api::DevicePointer address = 0;
  EXPECT_STATUS(success, cuMemAllocAsync(&address, 100'000, device.stream));
  EXPECT_STATUS(success, cuMemsetD8Async(address, 7, 100'000, device.stream));
  expect_bytes(device, address, 7, 100'000);
  EXPECT_EQ(ledger().pool_allocations, before.pool_allocations + 1);
  EXPECT_EQ(ledger().device_bytes, before.device_bytes + kUnit);
  EXPECT_STATUS(invalid_value, cuMemsetD8Async(address + 100'000 - 4, 7, 8, device.stream));
  EXPECT_STATUS(success, cuMemFreeAsync(address, device.stream));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(ledger(), before);
  EXPECT_EQ(test_api().device_bytes_held(0), before.device_bytes);
}

TEST_F(Pools, AFreeIsInTheOrderOfItsStream) {
  Device device;
  RegisteredPage page;
  const Ledger before = ledger();
  api::DevicePointer address = 0;
  EXPECT_STATUS(success, cuMemAllocAsync(&address, 64, device.stream));
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuMemsetD8Async(address, 5, 64, device.stream));
  std::array<unsigned char, 64> bytes{};
  void* pinned = nullptr;
  EXPECT_STATUS(success, cuMemAllocHost_v2(&pinned, 64));
  EXPECT_STATUS(success, cuMemcpyDtoHAsync_v2(pinned, address, 64, device.stream));
  EXPECT_STATUS(success, cuMemFreeAsync(address, device.stream));
  EXPECT_EQ(ledger().pool_allocations, before.pool_allocations + 1) << "its stream waits";
  EXPECT_STATUS(invalid_value, cuMemFreeAsync(address, device.stream)) << "for the second time";
  page[0].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  std::memcpy(bytes.data(), pinned, 64);
  for (const unsigned char byte : bytes) EXPECT_EQ(byte, 5);
  EXPECT_STATUS(success, cuMemFreeHost(pinned));
  EXPECT_EQ(ledger(), before);
}

TEST_F(Pools, WorkBehindTheFreeFaults) {
  Device device;
  SharedWords words;
  words.register_here();
  api::DevicePointer address = 0;
  EXPECT_STATUS(success, cuMemAllocAsync(&address, 64, device.stream));
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, words.address(0), 1, 0));
  EXPECT_STATUS(success, cuMemFreeAsync(address, device.stream));
  EXPECT_STATUS(success, cuMemsetD8Async(address, 5, 64, device.stream)) << "it is there so far";
  words[0].store(1);
  EXPECT_STATUS(illegal_address, cuStreamSynchronize(device.stream));
  device.is_faulty = true;
}

TEST_F(Pools, AFreeThatWaitsForTheDevice) {
  Device device;
  const Ledger before = ledger();
  api::DevicePointer address = 0;
  EXPECT_STATUS(success, cuMemAllocAsync(&address, 64, device.stream));
  EXPECT_STATUS(success, cuMemFree_v2(address));
  EXPECT_EQ(ledger(), before);
  EXPECT_STATUS(invalid_value, cuMemFreeAsync(address, device.stream));
  EXPECT_STATUS(success, cuMemAlloc_v2(&address, 64));
  EXPECT_STATUS(invalid_value, cuMemFreeAsync(address, device.stream)) << "of no pool";
  EXPECT_STATUS(success, cuMemFree_v2(address));
}

TEST_F(Pools, ADeviceHasADefaultPoolAndACurrentOne) {
  Device device;
  MemoryPoolHandle pool = nullptr;
  MemoryPoolHandle now = nullptr;
  EXPECT_STATUS(success, cuDeviceGetDefaultMemPool(&pool, 0));
  EXPECT_STATUS(success, cuDeviceGetMemPool(&now, 0));
  EXPECT_EQ(now, pool);
  EXPECT_STATUS(invalid_value, cuMemPoolDestroy(pool)) << "the default pool stays";
  api::DevicePointer address = 0;
  const auto pool_of = [](api::DevicePointer of) {
    MemoryPoolHandle found = nullptr;
    EXPECT_STATUS(success, cuPointerGetAttribute(&found, kPoolOfPointer, of));
    return found;
  };
  {
    OwnPool own;
    EXPECT_STATUS(success, cuDeviceSetMemPool(0, own.get()));
    EXPECT_STATUS(success, cuDeviceGetMemPool(&now, 0));
    EXPECT_EQ(now, own.get());
    EXPECT_STATUS(success, cuMemAllocAsync(&address, 64, device.stream));
    EXPECT_EQ(pool_of(address), own.get());
    EXPECT_STATUS(success, cuMemFreeAsync(address, device.stream));
  }
  EXPECT_STATUS(success, cuDeviceGetMemPool(&now, 0));
  EXPECT_EQ(now, pool) << "the current one was destroyed";
  EXPECT_STATUS(success, cuMemAllocAsync(&address, 64, device.stream));
  EXPECT_EQ(pool_of(address), pool);
  EXPECT_STATUS(success, cuMemFreeAsync(address, device.stream));
  EXPECT_STATUS(success, cuMemAlloc_v2(&address, 64));
  EXPECT_EQ(pool_of(address), nullptr);
  EXPECT_STATUS(success, cuMemFree_v2(address));
}

TEST_F(Pools, CountWhatIsUsed) {
  Device device;
  OwnPool pool(properties(kFd, 3 * kUnit));
  using Attribute = PoolAttribute;
  const api::DevicePointer small = pool.allocate(device, 1000);
  const api::DevicePointer large = pool.allocate(device, kUnit + 1);
  EXPECT_EQ(pool.attribute(Attribute::used_mem_current), 1024 + kUnit + 512);
  EXPECT_EQ(pool.attribute(Attribute::reserved_mem_current), 3 * kUnit);
  api::DevicePointer none = 0;
  EXPECT_STATUS(out_of_memory, cuMemAllocFromPoolAsync(&none, 1, pool.get(), device.stream));
  EXPECT_STATUS(success, cuMemFreeAsync(large, device.stream));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(pool.attribute(Attribute::used_mem_current), 1024U);
  EXPECT_EQ(pool.attribute(Attribute::used_mem_high), 1024 + kUnit + 512);
  std::uint64_t value = 1;
  EXPECT_STATUS(invalid_value, cuMemPoolSetAttribute(pool.get(), Attribute::used_mem_high, &value));
  value = 0;
  EXPECT_STATUS(success, cuMemPoolSetAttribute(pool.get(), Attribute::used_mem_high, &value));
  EXPECT_STATUS(success, cuMemPoolSetAttribute(pool.get(), Attribute::reserved_mem_high, &value));
  EXPECT_EQ(pool.attribute(Attribute::used_mem_high), 0U);
  value = 5 * kUnit;
  EXPECT_STATUS(success, cuMemPoolSetAttribute(pool.get(), Attribute::release_threshold, &value));
  EXPECT_EQ(pool.attribute(Attribute::release_threshold), 5 * kUnit);
  int allowed = 0;
  EXPECT_STATUS(success,
                cuMemPoolSetAttribute(pool.get(), Attribute::reuse_allow_opportunistic, &allowed));
  allowed = 1;
  EXPECT_STATUS(success,
                cuMemPoolGetAttribute(pool.get(), Attribute::reuse_allow_opportunistic, &allowed));
  EXPECT_EQ(allowed, 0);
  EXPECT_STATUS(success, cuMemPoolTrimTo(pool.get(), 0));
  expect_bytes(device, small, 0);
  EXPECT_STATUS(success, cuMemFreeAsync(small, device.stream));
}

TEST_F(Pools, ADestroyedPoolEndsWithItsLastAllocation) {
  Device device;
  const Ledger before = ledger();
  api::DevicePointer address = 0;
  {
    const OwnPool pool;
    address = pool.allocate(device, 64);
  }
  EXPECT_EQ(ledger().pools, before.pools + 1);
  EXPECT_STATUS(success, cuMemsetD8Async(address, 3, 64, device.stream));
  expect_bytes(device, address, 3);
  EXPECT_STATUS(success, cuMemFreeAsync(address, device.stream));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(ledger(), before);
}

TEST_F(Pools, AccessIsThePools) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 1);
  Device first(0);
  OwnPool pool;
  const api::DevicePointer address = pool.allocate(first, 64);
  api::Location location{api::LocationType::device, 1};
  auto flags = api::AccessFlags::read;
  EXPECT_STATUS(success, cuMemPoolGetAccess(&flags, pool.get(), &location));
  EXPECT_EQ(flags, api::AccessFlags::none);
  {
    Device second(1);
    EXPECT_STATUS(success, cuCtxEnablePeerAccess(first.context, 0));
    EXPECT_STATUS(invalid_value, cuMemsetD8Async(address, 3, 64, second.stream)) << "a pool's own";
    const api::AccessDescriptor both{location, api::AccessFlags::read_write};
    EXPECT_STATUS(success, cuMemPoolSetAccess(pool.get(), &both, 1));
    EXPECT_STATUS(success, cuMemPoolGetAccess(&flags, pool.get(), &location));
    EXPECT_EQ(flags, api::AccessFlags::read_write);
    EXPECT_STATUS(success, cuMemsetD8Async(address, 3, 64, second.stream));
    EXPECT_STATUS(success, cuStreamSynchronize(second.stream));
    const api::AccessDescriptor none{location, api::AccessFlags::none};
    EXPECT_STATUS(success, cuMemPoolSetAccess(pool.get(), &none, 1));
    EXPECT_STATUS(invalid_value, cuMemsetD8Async(address, 4, 64, second.stream));
  }
  const api::AccessDescriptor own{{api::LocationType::device, 0}, api::AccessFlags::none};
  EXPECT_STATUS(invalid_device, cuMemPoolSetAccess(pool.get(), &own, 1)) << "its own device's";
  expect_bytes(first, address, 3);
  EXPECT_STATUS(success, cuMemFreeAsync(address, first.stream));
}

TEST_F(Pools, HaveNoOtherHandles) {
  Device device;
  OwnPool pool;
  const api::DevicePointer address = pool.allocate(device, 64);
  api::MemoryHandle handle = 0;
  EXPECT_STATUS(invalid_value,
                cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address)));
  IpcMemoryHandle ipc{};
  EXPECT_STATUS(invalid_value, cuIpcGetMemHandle(&ipc, address));
  int fd = -1;
  OwnPool closed(properties(api::HandleType::none));
  EXPECT_STATUS(invalid_value, cuMemPoolExportToShareableHandle(&fd, closed.get(), kFd, 0));
  EXPECT_STATUS(success, cuMemFreeAsync(address, device.stream));
}

TEST_F(Pools, APointerIsExportedAfterItsPool) {
  Device device;
  OwnPool pool;
  const api::DevicePointer address = pool.allocate(device, 64);
  PoolPointer data{};
  EXPECT_STATUS(invalid_value, cuMemPoolExportPointer(&data, address));
  ::close(pool.export_fd());
  EXPECT_STATUS(success, cuMemPoolExportPointer(&data, address));
  EXPECT_STATUS(success, cuMemFreeAsync(address, device.stream));
}

/// What the exporter of the tests below writes for its child.
struct SharedPool {
  int fd;
  PoolPointer data;
};

TEST_F(Pools, TwoProcessesUseOneAllocation) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  SharedWords words;
  ChildProcess exporter([&](const ChildLink& link) {
    Device device;
    const OwnPool pool;
    const api::DevicePointer other = pool.allocate(device, 64);
    const api::DevicePointer address = pool.allocate(device, 64);
    EXPECT_STATUS(success, cuMemsetD8Async(address, 9, 64, device.stream));
    EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
    SharedPool shared{pool.export_fd(), {}};
    EXPECT_STATUS(success, cuMemPoolExportPointer(&shared.data, address));
    EXPECT_EQ(::write(pipe[1], &shared, sizeof shared), static_cast<ssize_t>(sizeof shared));
    link.ready();
    static_cast<void>(link.wait_go());
    expect_bytes(device, address, 4);
    expect_bytes(device, other, 0);
    EXPECT_STATUS(success, cuMemFreeAsync(address, device.stream));
    EXPECT_STATUS(success, cuMemFreeAsync(other, device.stream));
    EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  ASSERT_EQ(exporter.wait_ready(), 1);
  SharedPool shared{};
  ASSERT_EQ(::read(pipe[0], &shared, sizeof shared), static_cast<ssize_t>(sizeof shared));
  // By way of its descriptor table: passing one over a socket is tried elsewhere.
  const std::string path =
      "/proc/" + std::to_string(exporter.pid()) + "/fd/" + std::to_string(shared.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  Device device;
  const Ledger before = ledger();
  MemoryPoolHandle pool = nullptr;
  ASSERT_STATUS(success, cuMemPoolImportFromShareableHandle(&pool, as_handle(fd), kFd, 0));
  api::DevicePointer address = 0;
  EXPECT_STATUS(invalid_value, cuMemAllocFromPoolAsync(&address, 64, pool, device.stream));
  PoolPointer wrong = shared.data;
  wrong.bytes[8] ^= 1;
  EXPECT_STATUS(invalid_value, cuMemPoolImportPointer(&address, pool, &wrong));
  ASSERT_STATUS(success, cuMemPoolImportPointer(&address, pool, &shared.data));
  expect_bytes(device, address, 9);
  EXPECT_STATUS(success, cuMemsetD8Async(address, 4, 64, device.stream));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  const std::uint64_t held = test_api().device_bytes_held(0);
  EXPECT_EQ(held, 2 * kUnit) << "each allocation counts once on the host";
  exporter.go();
  ASSERT_EQ(exporter.wait_ready(), 1);
  EXPECT_EQ(test_api().device_bytes_held(0), kUnit) << "the importer has it still";
  expect_bytes(device, address, 4);
  EXPECT_STATUS(success, cuMemFreeAsync(address, device.stream));
  EXPECT_STATUS(success, cuMemPoolDestroy(pool));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(ledger(), before);
  EXPECT_EQ(test_api().device_bytes_held(0), 0U);
  exporter.go();
  EXPECT_EQ(exporter.wait(), 0);
  ::close(fd);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(Pools, WhatIsNoPoolIsNotImported) {
  Device device;
  MemoryPoolHandle pool = nullptr;
  EXPECT_STATUS(invalid_value, cuMemPoolImportFromShareableHandle(&pool, as_handle(-1), kFd, 0));
  MappedMemory memory;
  const int fd = memory.export_fd();
  EXPECT_STATUS(invalid_value, cuMemPoolImportFromShareableHandle(&pool, as_handle(fd), kFd, 0));
  ::close(fd);
}

}  // namespace
}  // namespace vramlink::simcuda
