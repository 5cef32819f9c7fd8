// What the calls do that programs use and the library does not: copies and fills that wait, access
// of one device to another's memory, questions about memory and streams. Handles of memory and of
// events, and host functions, have files of their own.
#include <array>
#include <cstring>

#include "driver_fixture.hpp"

namespace vramlink::simcuda {
namespace {

class Effects : public DriverTest {
 protected:
  template <class T, std::size_t kCount>
  static std::array<T, kCount> read(api::DevicePointer address) {
    std::array<T, kCount> values{};
    EXPECT_STATUS(success, cuMemcpyDtoH_v2(values.data(), address, sizeof values));
    return values;
  }
  static void clear(const MappedMemory& memory) {
    EXPECT_STATUS(success, cuMemsetD8_v2(memory.address(), 0, MappedMemory::kSizeBytes));
  }
};

TEST_F(Effects, CopiesThatWaitAreDoneWhenTheyReturn) {
  Device device;
  MappedMemory memory;
  clear(memory);
  test_api().set_delay(2000, 0, 0);
  const std::array<std::uint32_t, 3> host{7, 8, 9};
  EXPECT_STATUS(success, cuMemcpyHtoD_v2(memory.address() + 4, host.data(), 8));
  EXPECT_EQ((read<std::uint32_t, 4>(memory.address())), (std::array<std::uint32_t, 4>{0, 7, 8, 0}));
  EXPECT_STATUS(success, cuMemcpyDtoD_v2(memory.address() + 4096, memory.address() + 8, 4));
  EXPECT_EQ((read<std::uint32_t, 2>(memory.address() + 4096)),
            (std::array<std::uint32_t, 2>{8, 0}));
  // Any kind of address on either side.
  std::array<std::uint32_t, 3> target{};
  EXPECT_STATUS(success, cuMemcpy(memory.address(), reinterpret_cast<std::uintptr_t>(host.data()),
                                  sizeof host));
  EXPECT_STATUS(success, cuMemcpy(reinterpret_cast<std::uintptr_t>(target.data()), memory.address(),
                                  sizeof target));
  EXPECT_EQ(target, host);
}

TEST_F(Effects, ACopyThatWaitsStandsBehindBlockingStreams) {
  Device device;
  MappedMemory memory;
  RegisteredPage page;
  clear(memory);
  api::Stream blocking = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&blocking, 0));
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(blocking, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuMemsetD8Async(memory.address(), 5, 4, blocking));
  std::thread opener([&] { page[0].store(1); });
  EXPECT_STATUS(success, cuMemcpyDtoD_v2(memory.address() + 64, memory.address(), 4));
  opener.join();
  EXPECT_EQ((read<std::uint8_t, 4>(memory.address() + 64)),
            (std::array<std::uint8_t, 4>{5, 5, 5, 5}));
  EXPECT_STATUS(success, cuStreamDestroy_v2(blocking));
}

TEST_F(Effects, FillsOfTwoBytes) {
  Device device;
  MappedMemory memory;
  clear(memory);
  EXPECT_STATUS(success, cuMemsetD16_v2(memory.address() + 2, 0x1234, 2));
  EXPECT_EQ((read<std::uint16_t, 4>(memory.address())),
            (std::array<std::uint16_t, 4>{0, 0x1234, 0x1234, 0}));
  EXPECT_STATUS(success, cuMemsetD16Async(memory.address() + 4, 0x5678, 1, device.stream));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ((read<std::uint16_t, 4>(memory.address())),
            (std::array<std::uint16_t, 4>{0, 0x1234, 0x5678, 0}));
}

TEST_F(Effects, PeerAccessOpensPlainMemoryAndClosesIt) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 1);
  constexpr auto kPeerAlreadyEnabled = static_cast<Status>(704);
  constexpr auto kPeerNotEnabled = static_cast<Status>(705);
  Device first(0);
  MappedMemory mapped;
  std::array<api::DevicePointer, 2> memory{};
  EXPECT_STATUS(success, cuMemAlloc_v2(&memory[0], 64));
  {
    Device second(1);
    const auto fill = [&](api::DevicePointer target, unsigned char value) {
      return cuMemsetD8Async(target, value, 64, second.stream);
    };
    EXPECT_STATUS(invalid_value, fill(memory[0], 3));
    EXPECT_TRUE(returned(kPeerNotEnabled, cuCtxDisablePeerAccess(first.context), "disable"));
    EXPECT_STATUS(success, cuCtxEnablePeerAccess(first.context, 0));
    EXPECT_TRUE(returned(kPeerAlreadyEnabled, cuCtxEnablePeerAccess(first.context, 0), "enable"));
    EXPECT_STATUS(success, cuCtxSetCurrent(first.context));
    EXPECT_STATUS(success, cuMemAlloc_v2(&memory[1], 64));  // what comes later is open as well
    EXPECT_STATUS(success, cuCtxSetCurrent(second.context));
    for (const api::DevicePointer target : memory) EXPECT_STATUS(success, fill(target, 3));
    EXPECT_STATUS(success, cuStreamSynchronize(second.stream));
    EXPECT_STATUS(invalid_value, fill(mapped.address(), 3));  // has rights of its own
    EXPECT_STATUS(success, cuCtxDisablePeerAccess(first.context));
    for (const api::DevicePointer target : memory) EXPECT_STATUS(invalid_value, fill(target, 4));
  }
  for (const api::DevicePointer target : memory) {
    EXPECT_EQ((read<std::uint8_t, 2>(target + 62)), (std::array<std::uint8_t, 2>{3, 3}));
    EXPECT_STATUS(success, cuMemFree_v2(target));
  }
}

TEST_F(Effects, AHandleOfAMappingKeepsTheMemory) {
  Device device;
  const Ledger before = ledger();
  api::MemoryHandle retained = 0;
  {
    MappedMemory memory;
    EXPECT_STATUS(success, cuMemsetD8_v2(memory.address(), 6, 16));
    EXPECT_STATUS(success, cuMemRetainAllocationHandle(
                               &retained, reinterpret_cast<void*>(memory.address() + 100)));
    EXPECT_EQ(retained, memory.handle());
  }
  EXPECT_EQ(ledger().memories, before.memories + 1);
  {
    MappedMemory again(retained);  // releases it at the end
    EXPECT_EQ((read<std::uint8_t, 2>(again.address() + 14)), (std::array<std::uint8_t, 2>{6, 6}));
  }
  EXPECT_EQ(ledger(), before);
}

TEST_F(Effects, AnAddressTellsItsRange) {
  Device device;
  MappedMemory memory;
  RegisteredPage page;
  api::DevicePointer plain = 0;
  EXPECT_STATUS(success, cuMemAlloc_v2(&plain, 1000));
  const auto check = [](api::DevicePointer address, api::DevicePointer wanted,
                        std::size_t wanted_bytes) {
    api::DevicePointer base = 0;
    std::size_t size_bytes = 0;
    EXPECT_STATUS(success, cuMemGetAddressRange_v2(&base, &size_bytes, address));
    EXPECT_EQ(base, wanted);
    EXPECT_EQ(size_bytes, wanted_bytes);
  };
  check(plain + 999, plain, 1000);
  check(memory.address() + 5, memory.address(), MappedMemory::kSizeBytes);
  check(page.address(3), page.address(0), RegisteredPage::kSizeBytes);
  EXPECT_STATUS(success, cuMemGetAddressRange_v2(nullptr, nullptr, plain));
  EXPECT_STATUS(not_found, cuMemGetAddressRange_v2(nullptr, nullptr, plain + 1000));
  EXPECT_STATUS(success, cuMemFree_v2(plain));
}

TEST_F(Effects, PinnedMemoryKeepsItsFlags) {
  Device device;
  void* plain = nullptr;
  void* flagged = nullptr;
  EXPECT_STATUS(success, cuMemAllocHost_v2(&plain, 64));
  EXPECT_STATUS(success, cuMemHostAlloc(&flagged, 64, 3));
  unsigned flags = 99;
  EXPECT_STATUS(success, cuMemHostGetFlags(&flags, plain));
  EXPECT_EQ(flags, 0U);
  EXPECT_STATUS(success, cuMemHostGetFlags(&flags, static_cast<std::byte*>(flagged) + 63));
  EXPECT_EQ(flags, 3U);
  EXPECT_STATUS(success, cuMemFreeHost(plain));
  EXPECT_STATUS(success, cuMemFreeHost(flagged));
  EXPECT_STATUS(invalid_value, cuMemHostGetFlags(&flags, flagged));
}

TEST_F(Effects, AStreamKeepsItsFlags) {
  Device device;
  api::Stream blocking = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&blocking, 0));
  const auto flags_of = [](api::Stream stream) {
    unsigned flags = 99;
    EXPECT_STATUS(success, cuStreamGetFlags(stream, &flags));
    return flags;
  };
  EXPECT_EQ(flags_of(blocking), 0U);
  EXPECT_EQ(flags_of(device.stream), api::kStreamNonBlocking);
  EXPECT_EQ(flags_of(nullptr), 0U);
  EXPECT_STATUS(success, cuStreamDestroy_v2(blocking));
}

}  // namespace
}  // namespace vramlink::simcuda
