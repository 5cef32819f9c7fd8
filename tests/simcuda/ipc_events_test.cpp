// Events that two processes know: who sees what of whose records, and what dies with whom.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "driver_fixture.hpp"
#include "support/child_process.hpp"
#include "support/other_user.hpp"

namespace vramlink::simcuda {
namespace {

using test::ChildLink;
using test::ChildProcess;

constexpr unsigned kShared = kEventInterprocess | api::kEventDisableTiming;
// Words of the shared page.
constexpr std::size_t kGate = 0;
constexpr std::size_t kDone = 1;

class IpcEvents : public DriverTest {
 protected:
  [[nodiscard]] IpcEventHandle& handle() const { return words_.at<IpcEventHandle>(kHandle); }
  [[nodiscard]] api::Event create() const {
    api::Event event = nullptr;
    EXPECT_STATUS(success, cuEventCreate(&event, kShared));
    EXPECT_STATUS(success, cuIpcGetEventHandle(&handle(), event));
    return event;
  }
  [[nodiscard]] api::Event open() const {
    api::Event event = nullptr;
    EXPECT_STATUS(success, cuIpcOpenEventHandle(&event, handle()));
    return event;
  }
  [[nodiscard]] Status try_open() const {
    api::Event event = nullptr;
    return cuIpcOpenEventHandle(&event, handle());
  }
  /// Records behind the gate.
  void record_behind(std::uint64_t gate, api::Event event, const Device& device) const {
    EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, words_.address(kGate), gate, 0));
    EXPECT_STATUS(success, cuEventRecord(event, device.stream));
  }
  /// A child that shares an event whose record stands behind the gate, and lives on.
  [[nodiscard]] ChildProcess::Body recorder() const {
    return [this](const ChildLink& link) -> int {
      Device device;
      words_.register_here();
      record_behind(1, create(), device);
      link.ready();
      link.wait_forever();
    };
  }

  SharedWords words_;
};

TEST_F(IpcEvents, ARecordIsSeenByTheOtherProcess) {
  ChildProcess child(recorder());
  child.wait_ready();
  Device device;
  const Ledger before = ledger();
  words_.register_here();
  const api::Event event = open();
  EXPECT_EQ(ledger().events, before.events + 1);
  EXPECT_STATUS(not_ready, cuEventQuery(event));
  EXPECT_STATUS(success, cuStreamWaitEvent(device.stream, event, 0));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, words_.address(kDone), 1, 0));
  let_device_look();
  EXPECT_EQ(words_[kDone].load(), 0U);
  words_[kGate].store(1);
  EXPECT_STATUS(success, cuEventSynchronize(event));
  EXPECT_STATUS(success, cuEventQuery(event));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(words_[kDone].load(), 1U);
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
  words_.unregister();
  EXPECT_EQ(ledger(), before);
}

TEST_F(IpcEvents, AnImporterRecordsToo) {
  ChildProcess child([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    Device device;
    words_.register_here();
    const api::Event event = open();
    EXPECT_STATUS(success, cuEventQuery(event));  // never recorded
    record_behind(1, event, device);
    link.ready();
    EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
    return 0;
  });
  Device device;
  const api::Event event = create();
  EXPECT_STATUS(success, cuEventQuery(event));
  child.go();
  child.wait_ready();
  EXPECT_STATUS(not_ready, cuEventQuery(event));
  words_[kGate].store(1);
  EXPECT_STATUS(success, cuEventSynchronize(event));
  EXPECT_EQ(child.wait(), 0);
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
}

TEST_F(IpcEvents, ThePendingRecordOfADeadProcessNeverCompletes) {
  ChildProcess child(recorder());
  child.wait_ready();
  Device device;
  words_.register_here();
  const api::Event event = open();
  EXPECT_STATUS(success, cuStreamWaitEvent(device.stream, event, 0));
  EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, words_.address(kDone), 1, 0));
  child.kill();
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
  words_[kGate].store(1);
  let_device_look();
  EXPECT_STATUS(not_ready, cuEventQuery(event));
  // No other record releases who waits for that one.
  api::Stream other = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&other, api::kStreamNonBlocking));
  for (int i = 0; i < 20; ++i) {
    EXPECT_STATUS(success, cuEventRecord(event, other));
    EXPECT_STATUS(success, cuEventSynchronize(event));
  }
  let_device_look();
  EXPECT_STATUS(not_ready, cuStreamQuery(device.stream));
  EXPECT_EQ(words_[kDone].load(), 0U);
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
  let_device_look();
  EXPECT_STATUS(not_ready, cuStreamQuery(device.stream));
  // The end of the process does: this one's, or it would hang here.
}

TEST_F(IpcEvents, ALaterRecordConfusesWhoWaitsForTheEarlier) {
  ChildProcess child([this](const ChildLink& link) -> int {
    Device device;
    words_.register_here();
    const api::Event event = create();
    EXPECT_STATUS(success, cuEventRecord(event, device.stream));  // of the first frame
    EXPECT_STATUS(success, cuEventSynchronize(event));
    record_behind(1, event, device);  // of the second one
    link.ready();
    link.wait_forever();
  });
  child.wait_ready();
  Device device;
  const api::Event event = open();
  EXPECT_STATUS(success, cuStreamWaitEvent(device.stream, event, 0));  // for the first frame
  let_device_look();
  EXPECT_STATUS(not_ready, cuStreamQuery(device.stream));
  words_[kGate].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
}

TEST_F(IpcEvents, AWaitIsForTheRecordBeforeIt) {
  ChildProcess child([this](const ChildLink& link) -> int {
    Device device;
    words_.register_here();
    const api::Event event = create();
    record_behind(1, event, device);
    link.ready();
    static_cast<void>(link.wait_go());
    record_behind(2, event, device);
    link.ready();
    link.wait_forever();
  });
  child.wait_ready();
  Device device;
  const api::Event event = open();
  EXPECT_STATUS(success, cuStreamWaitEvent(device.stream, event, 0));
  child.go();
  child.wait_ready();
  words_[kGate].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_STATUS(not_ready, cuEventQuery(event));
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
}

TEST_F(IpcEvents, RecordsThatAreDoneOutOfOrderAreToldApart) {
  Device device;
  words_.register_here();
  const api::Event event = create();
  api::Stream other = nullptr;
  api::Stream waiting = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&other, api::kStreamNonBlocking));
  EXPECT_STATUS(success, cuStreamCreate(&waiting, api::kStreamNonBlocking));
  record_behind(1, event, device);
  EXPECT_STATUS(success, cuStreamWaitEvent(waiting, event, 0));
  EXPECT_STATUS(success, cuEventRecord(event, other));
  EXPECT_STATUS(success, cuEventSynchronize(event));
  let_device_look();
  EXPECT_STATUS(not_ready, cuStreamQuery(waiting));
  words_[kGate].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(waiting));
  EXPECT_STATUS(success, cuEventQuery(event));
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
  EXPECT_STATUS(success, cuStreamDestroy_v2(other));
  EXPECT_STATUS(success, cuStreamDestroy_v2(waiting));
  words_.unregister();
}

TEST_F(IpcEvents, GraphsRecordAndAwaitThem) {
  ChildProcess child([this](const ChildLink& link) -> int {
    Device device;
    words_.register_here();
    const api::Event event = create();
    api::Graph graph = nullptr;
    api::GraphNode node = nullptr;
    api::GraphExec exec = nullptr;
    EXPECT_STATUS(success, cuGraphCreate(&graph, 0));
    EXPECT_STATUS(success, cuGraphAddEventRecordNode(&node, graph, nullptr, 0, event));
    EXPECT_STATUS(success, cuGraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT_STATUS(success, cuStreamWaitValue64_v2(device.stream, words_.address(kGate), 1, 0));
    EXPECT_STATUS(success, cuGraphLaunch(exec, device.stream));
    link.ready();
    link.wait_forever();
  });
  child.wait_ready();
  Device device;
  const api::Event event = open();
  api::Graph graph = nullptr;
  api::GraphNode node = nullptr;
  api::GraphExec exec = nullptr;
  EXPECT_STATUS(success, cuGraphCreate(&graph, 0));
  EXPECT_STATUS(success, cuGraphAddEventWaitNode(&node, graph, nullptr, 0, event));
  EXPECT_STATUS(success, cuGraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_STATUS(success, cuGraphLaunch(exec, device.stream));
  let_device_look();
  EXPECT_STATUS(not_ready, cuStreamQuery(device.stream));
  words_[kGate].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_STATUS(success, cuGraphExecDestroy(exec));
  EXPECT_STATUS(success, cuGraphDestroy(graph));
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
}

TEST_F(IpcEvents, WhatIsDestroyedWhileAQueueUsesItHoldsNothingUp) {
  ChildProcess child(recorder());
  child.wait_ready();
  Device device;
  for (int i = 0; i < 10; ++i) {
    const api::Event event = open();
    EXPECT_STATUS(success, cuStreamWaitEvent(device.stream, event, 0));
    EXPECT_STATUS(success, cuEventDestroy_v2(event));
  }
  words_[kGate].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
}

TEST_F(IpcEvents, AnEventIsOpenedOnlyWhileItLives) {
  ChildProcess child([this](const ChildLink& link) -> int {
    Device device;
    words_.register_here();
    const api::Event event = create();
    record_behind(1, event, device);
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_STATUS(success, cuEventDestroy_v2(event));
    link.ready();
    static_cast<void>(link.wait_go());
    link.wait_forever();
  });
  child.wait_ready();
  Device device;
  const api::Event event = open();
  child.go();
  child.wait_ready();
  EXPECT_STATUS(invalid_handle, try_open());
  words_[kGate].store(1);
  EXPECT_STATUS(success, cuEventSynchronize(event));  // its record was under way
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
  child.kill();
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
  EXPECT_STATUS(invalid_handle, try_open());
}

TEST_F(IpcEvents, OnlyEventsForOthersHaveAHandle) {
  ChildProcess child(recorder());
  child.wait_ready();
  Device device;
  api::Event event = nullptr;
  IpcEventHandle made{};
  EXPECT_STATUS(invalid_value, cuEventCreate(&event, kEventInterprocess));
  EXPECT_STATUS(success, cuEventCreate(&event, api::kEventDisableTiming));
  EXPECT_STATUS(invalid_handle, cuIpcGetEventHandle(&made, event));
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
  const api::Event imported = open();
  EXPECT_STATUS(invalid_handle, cuIpcGetEventHandle(&made, imported));
  float milliseconds = 0;
  EXPECT_STATUS(invalid_handle, cuEventElapsedTime(&milliseconds, imported, imported));
  EXPECT_STATUS(success, cuEventDestroy_v2(imported));
  const api::Event own = create();
  EXPECT_STATUS(success, cuIpcGetEventHandle(&made, own));
  EXPECT_TRUE(std::equal(made.reserved, made.reserved + 64, handle().reserved));
  EXPECT_STATUS(invalid_context, try_open());
  EXPECT_STATUS(success, cuEventDestroy_v2(own));
}

TEST_F(IpcEvents, ADamagedHandleOpensNothing) {
  ChildProcess child(recorder());
  child.wait_ready();
  Device device;
  const Ledger before = ledger();
  for (char& byte : handle().reserved) {
    byte = static_cast<char>(byte ^ 64);
    EXPECT_STATUS(invalid_handle, try_open());
    byte = static_cast<char>(byte ^ 64);
  }
  for (const char value : {'\0', '\xff'}) {
    std::array<char, 64> bytes{};
    bytes.fill(value);
    std::swap_ranges(bytes.begin(), bytes.end(), handle().reserved);
    EXPECT_STATUS(invalid_value, try_open());
    std::swap_ranges(bytes.begin(), bytes.end(), handle().reserved);
  }
  EXPECT_EQ(ledger(), before);
  EXPECT_STATUS(success, cuEventDestroy_v2(open()));
}

TEST_F(IpcEvents, AnotherUserOpensNone) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
  ChildProcess child(recorder());
  child.wait_ready();
  ChildProcess other([this](const ChildLink&) {
    EXPECT_TRUE(test::become_nobody());
    Device device;
    EXPECT_STATUS(map_failed, try_open());
    return 0;
  });
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(IpcEvents, AnotherNamespaceOpensNone) {
  constexpr int kNotPermitted = 5;
  ChildProcess child(recorder());
  child.wait_ready();
  ChildProcess other([this](const ChildLink&) {
    if (!test::enter_own_namespaces()) return kNotPermitted;
    Device device;
    EXPECT_STATUS(map_failed, try_open());
    return 0;
  });
  const int end = other.wait();
  if (end == kNotPermitted) GTEST_SKIP() << "the system permits no namespaces of users";
  EXPECT_EQ(end, 0);
}

}  // namespace
}  // namespace vramlink::simcuda
