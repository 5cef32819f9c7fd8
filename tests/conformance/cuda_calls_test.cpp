// Which calls of the driver the CUDA back end makes, counted by the stand-in: one submission for
// what the seam calls one, and in steady state nothing that opens, closes or allocates.
#include "conformance/cuda_fixture.hpp"
#include "support/stand_in.hpp"
#include "support/stream_gate.hpp"
#include "support/test_kernels.hpp"

namespace vramlink::test {
namespace {

class CudaCalls : public CudaBackend {
 protected:
  void SetUp() override {
    CudaBackend::SetUp();
    if (!backend_) return;
    api_ = stand_in();
    if (api_ == nullptr) GTEST_SKIP() << "only the stand-in driver counts its calls";
  }
  using Counts = DriverCalls;
  /// What `action` called, and how often; without the look at the current context.
  template <class Action>
  static Counts called(const Action& action) {
    const Counts before = driver_calls();
    action();
    Counts difference = driver_calls_since(before);
    difference.erase("cuCtxGetCurrent");
    return difference;
  }

  const simcuda::TestApi* api_ = nullptr;
};

TEST_F(CudaCalls, ASignalIsOneSubmission) {
  const WordPage page(*backend_);
  const StreamView stream = raw().stream();
  const std::array<backend::WordWrite, 3> writes{
      {{page.ref(0), 1}, {page.ref(1), 1}, {page.ref(2), 1}}};
  EXPECT_EQ(called([&] {
              ASSERT_TRUE(backend_->signal(stream, {writes.data(), 1}));
            }),
            (Counts{{"cuStreamGetCtx", 1}, {"cuStreamWriteValue64", 1}}));
  EXPECT_EQ(called([&] { ASSERT_TRUE(backend_->signal(stream, writes)); }),
            (Counts{{"cuStreamGetCtx", 1}, {"cuStreamBatchMemOp", 1}}));
  EXPECT_EQ(called([&] { ASSERT_TRUE(backend_->signal(StreamView::already_complete(), writes)); }),
            Counts());
  raw().finish(stream);
}

TEST_F(CudaCalls, AnOrderReusesItsEvent) {
  const StreamView earlier = raw().stream();
  const StreamView later = raw().other_stream();
  ASSERT_TRUE(backend_->order(earlier, later));
  EXPECT_EQ(called([&] { ASSERT_TRUE(backend_->order(earlier, later)); }),
            (Counts{{"cuStreamGetCtx", 2}, {"cuEventRecord", 1}, {"cuStreamWaitEvent", 1}}));
  EXPECT_EQ(called([&] { ASSERT_TRUE(backend_->order(earlier, earlier)); }),
            (Counts{{"cuStreamGetCtx", 2}}));
  raw().finish(later);
}

TEST_F(CudaCalls, APreparedCopyIsOneLaunch) {
  const WordPage page(*backend_);
  const auto first = filled(1);
  const auto second = filled(2);
  const auto target = backend_->allocate(kBytes).value();
  const auto queue = backend_->make_copy_queue().value();
  const StreamView stream = raw().stream();
  const backend::WordRef word = page.ref(0);
  const auto copy = queue->prepare(target->data(), kBytes, {&word, 1}).value();
  std::uint64_t ready = 0;
  const auto submit = [&](StreamView after, const std::byte* source) {
    ++ready;
    ASSERT_TRUE(queue->submit(*copy, after, source, {&ready, 1}));
    page.see(0, ready);
  };
  submit(stream, first->data());  // makes the graph
  EXPECT_EQ(called([&] { submit(stream, first->data()); }),
            (Counts{{"cuStreamGetCtx", 1},
                    {"cuPointerGetAttribute", 1},
                    {"cuGraphExecBatchMemOpNodeSetParams", 1},
                    {"cuEventRecord", 1},
                    {"cuGraphLaunch", 1}}));
  EXPECT_EQ(called([&] { submit(stream, second->data()); }),
            (Counts{{"cuStreamGetCtx", 1},
                    {"cuPointerGetAttributes", 1},
                    {"cuGraphExecMemcpyNodeSetParams", 1},
                    {"cuGraphExecBatchMemOpNodeSetParams", 1},
                    {"cuEventRecord", 1},
                    {"cuGraphLaunch", 1}}));
  submit(StreamView::already_complete(), second->data());
  EXPECT_EQ(called([&] { submit(StreamView::already_complete(), second->data()); }),
            (Counts{{"cuPointerGetAttribute", 1},
                    {"cuGraphExecBatchMemOpNodeSetParams", 1},
                    {"cuGraphLaunch", 1}}));
  // A copy that is prepared when the kind of source is known pays for its graph then.
  const auto later = queue->prepare(target->data(), kBytes, {&word, 1}).value();
  ++ready;
  const Counts of_first = called([&] {
    ASSERT_TRUE(queue->submit(*later, stream, second->data(), {&ready, 1}));
  });
  EXPECT_EQ(of_first.count("cuGraphInstantiateWithFlags"), 0U);
  page.see(0, ready);
}

TEST_F(CudaCalls, SourcesOfTwoKindsKeepTheirGraphs) {
  const WordPage page(*backend_);
  const auto own = filled(1);
  const auto theirs = filled(2);
  const auto imported =
      backend_->import_memory(theirs->export_memory().value(), kBytes, os::Access::read_only)
          .value();
  const auto target = backend_->allocate(kBytes).value();
  const auto queue = backend_->make_copy_queue().value();
  const backend::WordRef word = page.ref(0);
  const auto copy = queue->prepare(target->data(), kBytes, {&word, 1}).value();
  std::uint64_t ready = 0;
  const auto submit_both = [&] {
    for (const std::byte* source : {own->data(), imported->data()}) {
      ++ready;
      ASSERT_TRUE(queue->submit(*copy, raw().stream(), source, {&ready, 1}));
      page.see(0, ready);
      EXPECT_EQ(raw().read(target->data(), kBytes), bytes_of(source == own->data() ? 1 : 2));
    }
  };
  submit_both();  // makes the graphs
  const Counts again = called([&] {
    for (int round = 0; round < 10; ++round) submit_both();
  });
  EXPECT_EQ(again.count("cuGraphInstantiateWithFlags"), 0U);
  EXPECT_EQ(again.at("cuGraphLaunch"), 20U);
}

TEST_F(CudaCalls, OrdinaryHostMemoryIsStagedInPagesThatStay) {
  const WordPage page(*backend_);
  const auto target = backend_->allocate(kBytes).value();
  const auto queue = backend_->make_copy_queue().value();
  const backend::WordRef word = page.ref(0);
  const auto copy = queue->prepare(target->data(), kBytes, {&word, 1}).value();
  const std::vector<std::byte> host = bytes_of(3);
  std::uint64_t ready = 0;
  const auto submit = [&] {
    ++ready;
    ASSERT_TRUE(queue->submit(*copy, StreamView::already_complete(), host.data(), {&ready, 1}));
    page.see(0, ready);
    // The buffer is free when the event behind the copy is complete, a moment later.
    raw().finish(queue->stream());
  };
  submit();
  const Counts again = called(submit);
  EXPECT_EQ(again.count("cuMemHostRegister"), 0U);
  EXPECT_EQ(again.count("cuGraphInstantiateWithFlags"), 0U);
  EXPECT_EQ(again.at("cuGraphLaunch"), 1U);
}

TEST_F(CudaCalls, NothingIsLeftInTheDriver) {
  simcuda::Ledger before{};
  api_->ledger(&before);
  {
    const auto second = make_backend();
    const WordPage page(*second);
    const auto memory = second->allocate(kBytes).value();
    const auto imported =
        second->import_memory(memory->export_memory().value(), kBytes, os::Access::read_only)
            .value();
    const auto queue = second->make_copy_queue().value();
    const backend::WordRef word = page.ref(0);
    const auto copy = queue->prepare(memory->data(), kBytes, {&word, 1}).value();
    const std::vector<std::byte> host = bytes_of(3);
    const std::uint64_t ready = 1;
    ASSERT_TRUE(queue->submit(*copy, StreamView::already_complete(), host.data(), {&ready, 1}));
    ASSERT_TRUE(second->order(raw().stream(), queue->stream()));
    page.see(0, 1);
    raw().finish(raw().stream());
  }
  simcuda::Ledger after{};
  api_->ledger(&after);
  EXPECT_EQ(before, after);
}

// What a test leaves in the driver is found by the leak check that every test has.
TEST_F(CudaCalls, WhatIsLeftInTheDriverIsSeen) {
  static_cast<void>(raw().stream());  // makes the context current
  const Holdings before = current_holdings();
  const auto left = [&](const char* what) {
    const std::string difference = describe_difference(before, current_holdings());
    return difference.find(std::string("left behind: driver: ") + what + "\n") != std::string::npos;
  };
  std::byte* const allocated = raw().allocate(kBytes);
  EXPECT_TRUE(left("allocations"));
  EXPECT_TRUE(left("memories"));
  EXPECT_TRUE(left("device bytes"));
  raw().free(allocated);
  void* pinned = nullptr;
  raw().expect(raw().mem_host_alloc(&pinned, kBytes, 0));
  EXPECT_TRUE(left("pinned allocations"));
  raw().expect(raw().mem_free_host(pinned));
  {
    const TestKernels kernels(raw());
    EXPECT_TRUE(left("modules"));
  }
  EXPECT_EQ(describe_difference(before, current_holdings()), "");
}

TEST_F(CudaCalls, AFailedCallNamesItselfAndLeavesNothing) {
  for (const char* call :
       {"cuMemCreate", "cuMemAddressReserve", "cuMemMap", "cuMemSetAccess", "cuMemsetD8Async",
        "cuStreamCreate", "cuMemHostRegister", "cuMemHostGetDevicePointer",
        "cuGraphInstantiateWithFlags", "cuGraphAddMemcpyNode", "cuEventCreate"}) {
    SCOPED_TRACE(call);
    const auto work = [&]() -> Result<void> {
      const auto memory = backend_->allocate(kBytes);
      if (!memory) return memory.error();
      const auto queue = backend_->make_copy_queue();
      if (!queue) return queue.error();
      const os::Mapping page =
          os::SharedSegment::create("words", 4096).value().map(os::Access::read_write).value();
      const auto words = backend_->register_words({page.data(), page.size_bytes()});
      if (!words) return words.error();
      const backend::WordRef word{words->get(), 0};
      const auto copy = (*queue)->prepare((*memory)->data(), kBytes, {&word, 1});
      if (!copy) return copy.error();
      const std::uint64_t ready = 1;
      const Result<void> submitted =
          (*queue)->submit(**copy, raw().stream(), (*memory)->data(), {&ready, 1});
      raw().finish((*queue)->stream());
      return submitted;
    };
    ASSERT_TRUE(work());
    simcuda::Ledger before{};
    api_->ledger(&before);
    ASSERT_TRUE(api_->fail_calls(call, 1, 1, static_cast<int>(cuda_api::Status::unknown)));
    const Result<void> failed = work();
    api_->clear_failures();
    ASSERT_FALSE(failed);
    EXPECT_STREQ(failed.error().operation(), call);
    EXPECT_EQ(failed.error().native(), static_cast<int>(cuda_api::Status::unknown));
    simcuda::Ledger after{};
    api_->ledger(&after);
    EXPECT_EQ(before, after);
  }
}

// What is freed under work of ours waits for it, also where the driver does not say at first when
// that is done.
TEST_F(CudaCalls, WhatIsFreedUnderWorkIsFreedThoughTheDriverFailsOnce) {
  const auto unknown = static_cast<int>(cuda_api::Status::unknown);
  ASSERT_TRUE(backend_->allocate(kBytes));  // the device is open
  for (const char* call : {"cuEventCreate", "cuEventRecord", "cuStreamQuery", "cuEventQuery",
                           "cuCtxGetCurrent", "cuCtxPushCurrent"}) {
    SCOPED_TRACE(call);
    simcuda::Ledger before{};
    api_->ledger(&before);
    {
      auto memory = backend_->allocate(kBytes).value();
      const auto queue = backend_->make_copy_queue().value();
      StreamGate gate;
      gate.close(queue->stream());
      ASSERT_TRUE(backend_->copy(queue->stream(), memory->data(), memory->data(), kBytes));
      ASSERT_TRUE(api_->fail_calls(call, 1, 1, unknown));
      memory.reset();
      api_->clear_failures();
      simcuda::Ledger held{};
      api_->ledger(&held);
      EXPECT_EQ(held.memories, before.memories + 1) << "a copy has yet to read it";
      gate.open();
      raw().finish(queue->stream());
    }
    // The next call that allocates frees it.
    ASSERT_TRUE(backend_->allocate(kBytes));
    simcuda::Ledger after{};
    api_->ledger(&after);
    EXPECT_EQ(before, after);
  }
}

// One call that fails is no fault of the context.
TEST_F(CudaCalls, OneQuestionThatFailsIsNoSickDevice) {
  ASSERT_TRUE(backend_->allocate(kBytes));
  const auto unknown = static_cast<int>(cuda_api::Status::unknown);
  ASSERT_TRUE(api_->fail_calls("cuEventQuery", 1, 1, unknown));
  EXPECT_TRUE(backend_->check_health());
  ASSERT_TRUE(api_->fail_calls("cuEventQuery", 1, 2, unknown));
  EXPECT_TRUE(backend_->check_health().failed_with(Code::driver));
  api_->clear_failures();
  EXPECT_TRUE(backend_->check_health());
}

// Whatever a driver says of work, it is the driver that failed; the same words are an answer to who
// opens a device.
TEST_F(CudaCalls, WorkThatIsRefusedIsTheDriversFailure) {
  const auto memory = backend_->allocate(kBytes).value();
  for (const auto status : {cuda_api::Status::not_supported, cuda_api::Status::device_unavailable,
                            cuda_api::Status::mps_max_connections_reached}) {
    ASSERT_TRUE(api_->fail_calls("cuMemcpyDtoDAsync", 1, 1, static_cast<int>(status)));
    const Result<void> refused =
        backend_->copy(raw().stream(), memory->data(), memory->data(), kBytes);
    api_->clear_failures();
    ASSERT_TRUE(refused.failed_with(Code::driver)) << to_string(refused.error());
    EXPECT_EQ(refused.error().native(), static_cast<int>(status));
    EXPECT_STREQ(refused.error().operation(), "cuMemcpyDtoDAsync");
    EXPECT_NE(refused.error().facts()->reason, "");
  }
}

// A driver that cannot answer is not a caller that asked for something wrong.
TEST_F(CudaCalls, AQuestionThatFailsIsTheDriversFault) {
  const auto memory = backend_->allocate(kBytes).value();
  std::vector<std::byte> host(kBytes);
  const auto out_of_memory = static_cast<int>(cuda_api::Status::out_of_memory);
  for (const char* call : {"cuPointerGetAttributes", "cuStreamGetCtx"}) {
    SCOPED_TRACE(call);
    ASSERT_TRUE(api_->fail_calls(call, 1, 1, out_of_memory));
    const Result<void> failed =
        backend_->copy(raw().stream(), memory->data(), memory->data(), kBytes);
    api_->clear_failures();
    ASSERT_TRUE(failed.failed_with(Code::out_of_memory)) << to_string(failed.error());
    EXPECT_STREQ(failed.error().operation(), call);
    EXPECT_EQ(failed.error().native(), out_of_memory);
  }
  // Of memory that is not its own it says nothing, and that with success.
  const auto invalid = static_cast<int>(cuda_api::Status::invalid_value);
  ASSERT_TRUE(api_->fail_calls("cuPointerGetAttributes", 1, 1, invalid));
  const Result<void> failed =
      backend_->copy(raw().stream(), memory->data(), memory->data(), kBytes);
  api_->clear_failures();
  ASSERT_TRUE(failed.failed_with(Code::driver)) << to_string(failed.error());
  EXPECT_STREQ(failed.error().operation(), "cuPointerGetAttributes");
}

}  // namespace
}  // namespace vramlink::test
