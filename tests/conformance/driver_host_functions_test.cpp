// Functions of the host in the order of a stream: what stands behind them, and what they may not
// do.
#include "conformance/driver_processes.hpp"

namespace vramlink::test {
namespace {

using cuda_api::Status;

class DriverHostFunctions : public DriverRules {
 protected:
  struct Gate {
    std::atomic<bool> has_begun{false};
    std::atomic<bool> is_open{false};
  };
  static void stand(void* data) {
    auto& gate = *static_cast<Gate*>(data);
    gate.has_begun.store(true);
    while (!gate.is_open.load()) std::this_thread::yield();
  }
  static void mark(void* data) { static_cast<std::atomic<bool>*>(data)->store(true); }
};

TEST_F(DriverHostFunctions, RunBehindTheWorkBeforeThem) {
  std::atomic<bool> has_run{false};
  raw().expect(driver().stream_wait_value_64(stream(), address(kGate), 1, 0));
  raw().expect(raw().launch_host_func(stream(), mark, &has_run));
  let_time_pass();
  EXPECT_FALSE(has_run.load());
  open(1);
  raw().finish(raw().stream());
  EXPECT_TRUE(has_run.load());
}

TEST_F(DriverHostFunctions, HoldUpTheWorkBehindThem) {
  Gate gate;
  raw().expect(raw().launch_host_func(stream(), stand, &gate));
  raw().expect(driver().stream_write_value_64(stream(), address(kDone), 1, 0));
  while (!gate.has_begun.load()) std::this_thread::yield();
  let_time_pass();
  EXPECT_EQ(word(kDone).load(), 0U);
  EXPECT_TRUE(raw().is_busy(raw().stream()));
  gate.is_open.store(true);
  raw().finish(raw().stream());
  EXPECT_EQ(word(kDone).load(), 1U);
}

TEST_F(DriverHostFunctions, MayNotCallTheDriver) {
  std::atomic<int> status{-1};
  const auto call = [](void* data) {
    cuda_api::DevicePointer memory = 0;
    static_cast<std::atomic<int>*>(data)->store(
        static_cast<int>(RawCuda::get()->mem_alloc(&memory, kBytes)));
  };
  raw().expect(raw().launch_host_func(stream(), call, &status));
  raw().finish(raw().stream());
  EXPECT_GIVES(not_permitted, static_cast<Status>(status.load()));
}

class DriverHostFunctionsOfOthers : public DriverProcesses {};

TEST_F(DriverHostFunctionsOfOthers, AStoppedProcessRunsNone) {
  constexpr std::size_t kBefore = kDone;
  constexpr std::size_t kRun = 24;
  constexpr std::size_t kBehind = 32;
  ChildProcess child([&](const ChildLink& link) -> int {
    static_cast<void>(link.wait_go());
    const Client client(page_);
    client.wait_word(Client::stream(), kGate, 1);
    client.write_word(Client::stream(), kBefore, 1);
    Client::raw().expect(Client::raw().launch_host_func(
        Client::stream(),
        [](void* data) { static_cast<std::atomic<std::uint64_t>*>(data)->store(1); },
        &page_[kRun]));
    client.write_word(Client::stream(), kBehind, 1);
    link.ready();
    link.wait_forever();
  });
  if (!RawCuda::require()) return;
  const Client client(page_);
  child.go();
  child.wait_ready();
  child.stop();
  page_[kGate].store(1);
  page_.see(kBefore, 1);
  client.let_time_pass(kBeat);
  EXPECT_EQ(page_[kRun].load(), 0U);
  EXPECT_EQ(page_[kBehind].load(), 0U);
  child.resume();
  page_.see(kBehind, 1);
  EXPECT_EQ(page_[kRun].load(), 1U);
}

}  // namespace
}  // namespace vramlink::test
