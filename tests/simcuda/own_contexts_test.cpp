// Contexts that a program makes on a device, beside its primary one.
#include <thread>
#include <vector>

#include "driver_fixture.hpp"

namespace vramlink::simcuda {
namespace {

class OwnContexts : public DriverTest {
 protected:
  /// Made here, and current from here on.
  static api::Context make() {
    api::Context context = nullptr;
    EXPECT_STATUS(success, cuCtxCreate_v2(&context, 0, 0));
    return context;
  }
  static api::Context current() {
    api::Context context = nullptr;
    EXPECT_STATUS(success, cuCtxGetCurrent(&context));
    return context;
  }
  static api::Context context_of(api::Stream stream) {
    api::Context context = nullptr;
    EXPECT_STATUS(success, cuStreamGetCtx(stream, &context));
    return context;
  }

  Device device_;
};

TEST_F(OwnContexts, HaveTheirOwnStreamsEventsAndMemory) {
  const Ledger before = ledger();
  const api::Context own = make();
  EXPECT_NE(own, device_.context);
  EXPECT_EQ(current(), own);
  EXPECT_EQ(ledger().retained_contexts, before.retained_contexts + 1);
  api::Device ordinal = -1;
  EXPECT_STATUS(success, cuCtxGetDevice(&ordinal));
  EXPECT_EQ(ordinal, 0);
  api::Stream stream = nullptr;
  api::Event event = nullptr;
  api::DevicePointer memory = 0;
  EXPECT_STATUS(success, cuStreamCreate(&stream, api::kStreamNonBlocking));
  EXPECT_STATUS(success, cuEventCreate(&event, api::kEventDisableTiming));
  EXPECT_STATUS(success, cuMemAlloc_v2(&memory, 4096));
  EXPECT_EQ(context_of(stream), own);
  EXPECT_EQ(context_of(nullptr), own);
  EXPECT_EQ(context_of(device_.stream), device_.context);
  api::Context owner = nullptr;
  EXPECT_STATUS(success, cuPointerGetAttribute(&owner, api::PointerAttribute::context, memory));
  EXPECT_EQ(owner, own);
  EXPECT_STATUS(invalid_handle, cuEventRecord(event, device_.stream));
  EXPECT_STATUS(success, cuEventRecord(event, stream));
  EXPECT_STATUS(peer_access_unsupported, cuCtxEnablePeerAccess(device_.context, 0));

  EXPECT_STATUS(success, cuCtxDestroy_v2(own));
  EXPECT_EQ(ledger(), before);  // all that it had went with it
  EXPECT_EQ(current(), device_.context);
  EXPECT_STATUS(invalid_handle, cuStreamQuery(stream));
  EXPECT_STATUS(invalid_handle, cuEventQuery(event));
  EXPECT_STATUS(invalid_context, cuCtxDestroy_v2(own));
  EXPECT_STATUS(invalid_context, cuCtxPushCurrent_v2(own));
}

TEST_F(OwnContexts, WaitForTheirOwnWorkAlone) {
  RegisteredPage page;
  const api::Context own = make();
  api::DevicePointer memory = 0;
  EXPECT_STATUS(success, cuMemAlloc_v2(&memory, 4096));
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device_.stream, page.address(0), 1, 0));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(nullptr, page.address(1), 1, 0));
  EXPECT_STATUS(success, cuCtxSynchronize());
  EXPECT_EQ(page[1].load(), 1U);
  EXPECT_STATUS(success, cuMemFree_v2(memory));  // stops while its own context is at work
  EXPECT_STATUS(not_ready, cuStreamQuery(device_.stream));
  EXPECT_STATUS(success, cuCtxDestroy_v2(own));
  EXPECT_STATUS(not_ready, cuStreamQuery(device_.stream));
  page[0].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(device_.stream));
}

TEST_F(OwnContexts, APrimaryOneIsReleasedAndNotDestroyed) {
  EXPECT_STATUS(invalid_context, cuCtxDestroy_v2(device_.context));
  EXPECT_STATUS(success, cuStreamQuery(device_.stream));
}

TEST_F(OwnContexts, ADestroyedOneStaysCurrentInOtherThreads) {
  const api::Context own = make();
  EXPECT_STATUS(success, cuCtxPopCurrent_v2(nullptr));
  std::thread([&] {
    EXPECT_STATUS(success, cuCtxSetCurrent(own));
    std::thread([&] { EXPECT_STATUS(success, cuCtxDestroy_v2(own)); }).join();
    api::Stream stream = nullptr;
    EXPECT_EQ(current(), own);
    EXPECT_STATUS(context_is_destroyed, cuStreamCreate(&stream, 0));
    EXPECT_STATUS(success, cuCtxPopCurrent_v2(nullptr));
    EXPECT_STATUS(invalid_context, cuStreamCreate(&stream, 0));
  }).join();
}

TEST_F(OwnContexts, AFaultOfOneLeavesTheOthersAlone) {
  const api::Context own = make();
  EXPECT_TRUE(test_api().fault_context(static_cast<int>(Status::launch_failed)));
  EXPECT_STATUS(launch_failed, cuCtxSynchronize());
  EXPECT_STATUS(success, cuCtxDestroy_v2(own));
  EXPECT_STATUS(success, cuCtxSynchronize());
  EXPECT_STATUS(success, cuStreamQuery(device_.stream));
}

TEST_F(OwnContexts, ThereAreOnlySoMany) {
  const Ledger before = ledger();
  std::vector<api::Context> made;
  api::Context own = nullptr;
  Status status = Status::success;
  while ((status = cuCtxCreate_v2(&own, 0, 0)) == Status::success) made.push_back(own);
  EXPECT_EQ(status, Status::out_of_memory);
  EXPECT_GE(made.size(), 8U);
  for (auto context = made.rbegin(); context != made.rend(); ++context) {
    EXPECT_STATUS(success, cuCtxDestroy_v2(*context));
  }
  EXPECT_EQ(ledger(), before);
  EXPECT_EQ(current(), device_.context);
}

}  // namespace
}  // namespace vramlink::simcuda
