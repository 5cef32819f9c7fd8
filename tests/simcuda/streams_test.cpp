// Streams, events and words: what is performed when, and by whom.
#include <thread>

#include "driver_fixture.hpp"

namespace vramlink::simcuda {
namespace {

class Streams : public DriverTest {};

TEST_F(Streams, WorkIsPerformedInOrder) {
  Device device;
  RegisteredPage page;
  MappedMemory memory;
  std::array<unsigned, 4> bytes{};
  EXPECT_STATUS(success, cuMemsetD32Async(memory.address(), 7, 1024, device.stream));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, page.address(0), 5, 0));
  EXPECT_STATUS(success,
                cuMemcpyDtoHAsync_v2(bytes.data(), memory.address() + 4080, 16, device.stream));
  EXPECT_EQ(page[0].load(), 5U);
  EXPECT_EQ(bytes, (std::array<unsigned, 4>{7, 7, 7, 7}));
}

TEST_F(Streams, NothingIsCompleteWhenItIsSubmitted) {
  Device device;
  RegisteredPage page;
  test_api().set_delay(20'000, 0, 0);
  api::Event event = nullptr;
  EXPECT_STATUS(success, cuEventCreate(&event, api::kEventDisableTiming));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuEventRecord(event, device.stream));
  EXPECT_EQ(page[0].load(), 0U);
  EXPECT_STATUS(not_ready, cuStreamQuery(device.stream));
  EXPECT_STATUS(not_ready, cuEventQuery(event));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(page[0].load(), 1U);
  EXPECT_STATUS(success, cuEventQuery(event));
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
}

TEST_F(Streams, AWaitIsReleasedByAPlainStore) {
  Device device;
  RegisteredPage page;
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(0), 5, 0));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, page.address(1), 1, 0));
  let_device_look();
  EXPECT_STATUS(not_ready, cuStreamQuery(device.stream));
  EXPECT_EQ(page[1].load(), 0U);
  page[0].store(5);
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(page[1].load(), 1U);
}

TEST_F(Streams, TheComparisonIsCyclic) {
  Device device;
  RegisteredPage page;
  page[0].store(UINT64_MAX);
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, page.address(0), 5, 0));
  let_device_look();
  EXPECT_STATUS(not_ready, cuStreamQuery(device.stream));
  page[0].store(INT64_MAX);
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
}

}  // namespace
}  // namespace vramlink::simcuda
