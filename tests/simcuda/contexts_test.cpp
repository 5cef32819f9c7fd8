// Devices and what shows them, contexts, and the streams and events that belong to them.
#include <array>
#include <cstring>
#include <thread>

#include "driver_fixture.hpp"

namespace vramlink::simcuda {
namespace {

class Contexts : public DriverTest {};

TEST_F(Contexts, NothingWorksBeforeTheStart) {
  int count = 0;
  EXPECT_STATUS(not_initialized, cuDeviceGetCount(&count));
  EXPECT_STATUS(success, cuDriverGetVersion(&count));
  EXPECT_EQ(count, 13000);
  EXPECT_STATUS(invalid_value, cuInit(1));
  EXPECT_STATUS(success, cuInit(0));
  EXPECT_STATUS(success, cuDeviceGetCount(&count));
  EXPECT_EQ(count, 1);
  EXPECT_STATUS(invalid_device, cuDeviceGet(&count, 1));
}

TEST_F(Contexts, AHostWithoutDevicesSaysSo) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "0", 1);
  EXPECT_STATUS(no_device, cuInit(0));
}

TEST_F(Contexts, DevicesAreHiddenAndReordered) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "4", 1);
  ::setenv("CUDA_VISIBLE_DEVICES", "2,GPU-5c0d0a00-1122-4344-8566-778899aabb00,9,1", 1);
  EXPECT_STATUS(success, cuInit(0));
  int count = 0;
  EXPECT_STATUS(success, cuDeviceGetCount(&count));
  ASSERT_EQ(count, 2);  // the list ends at what is no device
  api::Uuid uuid{};
  EXPECT_STATUS(success, cuDeviceGetUuid_v2(&uuid, 0));
  EXPECT_EQ(uuid.bytes[15], 2);
  EXPECT_STATUS(success, cuDeviceGetUuid_v2(&uuid, 1));
  EXPECT_EQ(uuid.bytes[15], 0);
  std::array<char, 64> name{};
  EXPECT_STATUS(success, cuDeviceGetName(name.data(), 64, 0));
  EXPECT_STREQ(name.data(), "Stand-in GPU 2");
}

TEST_F(Contexts, AttributesAreATable) {
  EXPECT_STATUS(success, cuInit(0));
  int value = 0;
  EXPECT_STATUS(success, cuDeviceGetAttribute(
                             &value, api::DeviceAttribute::virtual_memory_management_supported, 0));
  EXPECT_EQ(value, 1);
  EXPECT_STATUS(invalid_value,
                cuDeviceGetAttribute(&value, static_cast<api::DeviceAttribute>(9999), 0));
  EXPECT_STATUS(invalid_device, cuDeviceGetAttribute(&value, api::DeviceAttribute::integrated, 7));
  std::size_t bytes = 0;
  EXPECT_STATUS(success, cuDeviceTotalMem_v2(&bytes, 0));
  EXPECT_EQ(bytes, std::size_t{1} << 30);
}

TEST_F(Contexts, CallsNeedACurrentContext) {
  EXPECT_STATUS(success, cuInit(0));
  api::Context context = nullptr;
  api::Context current = nullptr;
  api::Stream stream = nullptr;
  EXPECT_STATUS(success, cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_STATUS(invalid_context, cuStreamCreate(&stream, 0));
  EXPECT_STATUS(invalid_context, cuCtxPopCurrent_v2(&current));
  EXPECT_STATUS(success, cuCtxPushCurrent_v2(context));
  EXPECT_STATUS(success, cuStreamCreate(&stream, 0));
  std::thread other([&] {
    EXPECT_STATUS(success, cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    EXPECT_STATUS(invalid_context, cuStreamQuery(stream));
    EXPECT_STATUS(success, cuCtxSetCurrent(context));
    EXPECT_STATUS(success, cuStreamQuery(stream));
  });
  other.join();
  EXPECT_STATUS(success, cuStreamGetCtx(stream, &current));
  EXPECT_EQ(current, context);
  EXPECT_STATUS(success, cuCtxPopCurrent_v2(&current));
  EXPECT_EQ(current, context);
  EXPECT_STATUS(success, cuDevicePrimaryCtxRelease_v2(0));
}

TEST_F(Contexts, APrimaryContextIsCounted) {
  EXPECT_STATUS(success, cuInit(0));
  unsigned flags = 0;
  int active = 1;
  EXPECT_STATUS(success, cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 0);
  api::Context first = nullptr;
  api::Context second = nullptr;
  EXPECT_STATUS(success, cuDevicePrimaryCtxRetain(&first, 0));
  EXPECT_STATUS(success, cuDevicePrimaryCtxRetain(&second, 0));
  EXPECT_EQ(first, second);
  EXPECT_EQ(ledger().retained_contexts, 2U);
  EXPECT_STATUS(success, cuCtxPushCurrent_v2(first));
  api::Stream stream = nullptr;
  api::Event event = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&stream, 0));
  EXPECT_STATUS(success, cuEventCreate(&event, 0));
  api::DevicePointer memory = 0;
  EXPECT_STATUS(success, cuMemAlloc_v2(&memory, 100));
  EXPECT_STATUS(success, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_STATUS(success, cuStreamQuery(stream));
  EXPECT_STATUS(success, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_EQ(ledger(), Ledger{});  // all that it had went with it
  EXPECT_STATUS(context_is_destroyed, cuStreamQuery(stream));
  EXPECT_STATUS(invalid_context, cuDevicePrimaryCtxRelease_v2(0));
  EXPECT_STATUS(success, cuDevicePrimaryCtxRetain(&second, 0));
  EXPECT_NE(first, second);
  EXPECT_STATUS(success, cuCtxSetCurrent(second));
  EXPECT_STATUS(invalid_handle, cuStreamQuery(stream));
  EXPECT_STATUS(success, cuDevicePrimaryCtxRelease_v2(0));
}

TEST_F(Contexts, StreamsAndEventsBelongToOne) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 1);
  Device first(0);
  RegisteredPage page;
  api::Event event = nullptr;
  EXPECT_STATUS(success, cuEventCreate(&event, api::kEventDisableTiming));
  {
    Device second(1);
    EXPECT_STATUS(invalid_handle, cuEventRecord(event, second.stream));
    // A wait may be for an event of another device.
    EXPECT_STATUS(success, cuStreamWaitValue64_v2(first.stream, page.address(0), 1, 0));
    EXPECT_STATUS(success, cuEventRecord(event, first.stream));
    EXPECT_STATUS(success, cuStreamWaitEvent(second.stream, event, 0));
    EXPECT_STATUS(success, cuStreamWriteValue64_v2(second.stream, page.address(1), 1, 0));
    let_device_look();
    EXPECT_STATUS(not_ready, cuStreamQuery(second.stream));
    EXPECT_EQ(page[1].load(), 0U);
    page[0].store(1);
    EXPECT_STATUS(success, cuStreamSynchronize(second.stream));
    EXPECT_EQ(page[1].load(), 1U);
  }
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
  EXPECT_STATUS(invalid_handle, cuEventQuery(event));
}

TEST_F(Contexts, AccessIsGivenToEachDevice) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 1);
  Device first(0);
  MappedMemory memory;
  {
    Device second(1);
    EXPECT_STATUS(invalid_value, cuMemsetD8Async(memory.address(), 1, 16, second.stream));
    const api::AccessDescriptor access{{api::LocationType::device, 1},
                                       api::AccessFlags::read_write};
    EXPECT_STATUS(success, cuMemSetAccess(memory.address(), MappedMemory::kSizeBytes, &access, 1));
    EXPECT_STATUS(success, cuMemsetD8Async(memory.address(), 1, 16, second.stream));
    EXPECT_STATUS(success, cuStreamSynchronize(second.stream));
  }
  int can = 0;
  EXPECT_STATUS(success, cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
}

TEST_F(Contexts, TheDefaultStreamIsOrderedWithBlockingOnes) {
  Device device;
  RegisteredPage page;
  api::Stream blocking = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&blocking, 0));
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(blocking, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(nullptr, page.address(1), 1, 0));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, page.address(2), 1, 0));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  let_device_look();
  EXPECT_EQ(page[2].load(), 1U);  // a stream that is not blocking passes
  EXPECT_EQ(page[1].load(), 0U);
  EXPECT_STATUS(not_ready, cuStreamQuery(nullptr));
  page[0].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(nullptr));
  EXPECT_EQ(page[1].load(), 1U);

  const auto own = reinterpret_cast<api::Stream>(api::kStreamPerThread);
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(nullptr, page.address(3), 1, 0));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(own, page.address(4), 1, 0));
  let_device_look();
  EXPECT_EQ(page[4].load(), 0U);
  EXPECT_STATUS(not_ready, cuStreamQuery(own));
  page[3].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(own));
  EXPECT_EQ(page[4].load(), 1U);
  EXPECT_STATUS(success, cuStreamDestroy_v2(blocking));
}

TEST_F(Contexts, ADestroyedStreamsWorkIsStillPerformed) {
  Device device;
  RegisteredPage page;
  api::Stream stream = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&stream, api::kStreamNonBlocking));
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(stream, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(stream, page.address(1), 1, 0));
  EXPECT_STATUS(success, cuStreamDestroy_v2(stream));
  EXPECT_STATUS(invalid_handle, cuStreamQuery(stream));
  page[0].store(1);
  wait_until(page[1], 1);
}

TEST_F(Contexts, ALongQueueMakesItsClientWait) {
  Device device;
  RegisteredPage page;
  constexpr std::uint64_t kCount = 2000;
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(0), 1, 0));
  std::thread submitter([&] {
    EXPECT_STATUS(success, cuCtxSetCurrent(device.context));
    for (std::uint64_t i = 1; i <= kCount; ++i) {
      EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, page.address(1), i, 0));
    }
    page[2].store(1);
  });
  EXPECT_EQ(page[2].load(), 0U);
  page[0].store(1);
  submitter.join();
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(page[1].load(), kCount);
}

TEST_F(Contexts, TimesOfEventsCanBeCompared) {
  Device device;
  std::array<api::Event, 2> events{};
  for (api::Event& event : events) EXPECT_STATUS(success, cuEventCreate(&event, 0));
  float milliseconds = -1;
  EXPECT_STATUS(invalid_handle, cuEventElapsedTime(&milliseconds, events[0], events[1]));
  for (const api::Event event : events) EXPECT_STATUS(success, cuEventRecord(event, device.stream));
  EXPECT_STATUS(success, cuEventSynchronize(events[1]));
  EXPECT_STATUS(success, cuEventElapsedTime(&milliseconds, events[0], events[1]));
  EXPECT_GE(milliseconds, 0);
  for (const api::Event event : events) EXPECT_STATUS(success, cuEventDestroy_v2(event));
}

}  // namespace
}  // namespace vramlink::simcuda
