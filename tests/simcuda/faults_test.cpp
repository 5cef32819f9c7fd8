// Faults on demand: of the Nth call of a function or of any, before and after its effect, by the
// test interface and by the environment.
#include <signal.h>

#include <chrono>
#include <thread>

#include "driver_fixture.hpp"
#include "support/child_process.hpp"

namespace vramlink::simcuda {
namespace {

using test::ChildLink;
using test::ChildProcess;

constexpr auto kOutOfMemory = static_cast<std::uint64_t>(Status::out_of_memory);
constexpr auto kIllegalAddress = static_cast<std::uint64_t>(Status::illegal_address);

class Faults : public DriverTest {
 protected:
  static void plant(const Fault& fault) { EXPECT_TRUE(test_api().plant(&fault)); }
  template <class Words>
  static Status write(const Device& device, const Words& page, std::uint64_t value) {
    return cuStreamWriteValue64_v2(device.stream, page.address(0), value, 0);
  }
  static std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }
  /// Runs `body` in a child with a device; the parent looks at how it ends.
  template <class Body>
  static ChildProcess::Body with_device(SharedWords& words, const Body& body) {
    return [&words, body](const ChildLink& link) {
      Device device;
      words.register_here();
      body(device, link);
      EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
      words.unregister();
      return 0;
    };
  }
};

TEST_F(Faults, MeetTheNthCallOfAFunction) {
  Device device;
  RegisteredPage page;
  plant({"cuStreamWriteValue64", 2, 2, FaultKind::fail, kOutOfMemory});
  EXPECT_STATUS(success, write(device, page, 1));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_STATUS(out_of_memory, write(device, page, 2));
  EXPECT_STATUS(out_of_memory, write(device, page, 3));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(page[0].load(), 1U) << "a call that fails before its effect has none";
  EXPECT_STATUS(success, write(device, page, 4));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(page[0].load(), 4U);
  EXPECT_EQ(test_api().faults_met(), 2U);
}

TEST_F(Faults, MeetTheNthCallOfAny) {
  Device device;
  RegisteredPage page;
  plant({nullptr, 3, 1, FaultKind::fail, kOutOfMemory});
  const std::uint64_t before = test_api().total_calls();
  EXPECT_STATUS(success, write(device, page, 1));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  int count = 0;
  EXPECT_STATUS(out_of_memory, cuDeviceGetCount(&count));
  EXPECT_EQ(count, 0);
  EXPECT_STATUS(success, cuDeviceGetCount(&count));
  EXPECT_EQ(test_api().total_calls(), before + 4);
  EXPECT_EQ(test_api().faults_met(), 1U);
}

TEST_F(Faults, ALoopFindsItsEnd) {
  Device device;
  const std::uint64_t met = test_api().faults_met();
  std::uint64_t number = 0;
  for (bool went_past = false; !went_past;) {
    plant({nullptr, ++number, 1, FaultKind::fail, kOutOfMemory});
    const std::uint64_t met_before = test_api().faults_met();
    int count = 0;
    for (int i = 0; i < 5; ++i) (void)cuDeviceGetCount(&count);
    went_past = test_api().faults_met() == met_before;
    test_api().clear_failures();
  }
  EXPECT_EQ(number, 6U);
  EXPECT_EQ(test_api().faults_met(), met + 5);
}

TEST_F(Faults, CallsThatNeedNoDriverMeetThemToo) {
  plant({"cuDriverGetVersion", 1, 1, FaultKind::fail, kOutOfMemory});
  int version = 0;
  EXPECT_STATUS(out_of_memory, cuDriverGetVersion(&version));
  EXPECT_STATUS(success, cuDriverGetVersion(&version));
}

TEST_F(Faults, SeveralAtOnceAreCountedEachForItself) {
  Device device;
  RegisteredPage page;
  plant({"cuStreamWriteValue64", 1, 1, FaultKind::fail, kOutOfMemory});
  plant({"cuEventCreate", 2, 1, FaultKind::fail, kIllegalAddress});
  plant({nullptr, 4, 1, FaultKind::fail, 999});
  api::Event event = nullptr;
  EXPECT_STATUS(success, cuEventCreate(&event, api::kEventDisableTiming));
  api::Event other = nullptr;
  EXPECT_STATUS(illegal_address, cuEventCreate(&other, api::kEventDisableTiming));
  EXPECT_STATUS(out_of_memory, write(device, page, 1));
  EXPECT_STATUS(unknown, cuEventDestroy_v2(event));
  EXPECT_STATUS(success, cuEventDestroy_v2(event));
}

TEST_F(Faults, AFailureAfterTheEffectLeavesIt) {
  Device device;
  RegisteredPage page;
  plant({"cuStreamWriteValue64", 1, 1, FaultKind::fail, kOutOfMemory, FaultMoment::after});
  EXPECT_STATUS(out_of_memory, write(device, page, 7));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  EXPECT_EQ(page[0].load(), 7U);
}

TEST_F(Faults, AsADriverFailsItEndsWhatItWasToEnd) {
  Device device;
  const Ledger before = ledger();
  plant({nullptr, 1, 3, FaultKind::fail, kOutOfMemory, FaultMoment::as_driver});
  api::Event event = nullptr;
  EXPECT_STATUS(out_of_memory, cuEventCreate(&event, api::kEventDisableTiming));
  EXPECT_STREQ(test_api().last_met(), "cuEventCreate");
  EXPECT_EQ(ledger(), before) << "a call that makes something has made nothing";
  test_api().clear_failures();
  EXPECT_STATUS(success, cuEventCreate(&event, api::kEventDisableTiming));
  plant({nullptr, 1, 1, FaultKind::fail, kOutOfMemory, FaultMoment::as_driver});
  EXPECT_STATUS(out_of_memory, cuEventDestroy_v2(event));
  EXPECT_STREQ(test_api().last_met(), "cuEventDestroy_v2");
  EXPECT_EQ(ledger(), before);
}

TEST_F(Faults, ADelayIsNoShorterThanItWasTold) {
  Device device;
  RegisteredPage page;
  for (const FaultMoment moment : {FaultMoment::before, FaultMoment::after}) {
    plant({"cuStreamWriteValue64", 1, 1, FaultKind::delay, 20'000, moment});
    const auto begin = now();
    EXPECT_STATUS(success, write(device, page, 1));
    EXPECT_GE(now() - begin, std::chrono::milliseconds(20));
  }
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
}

TEST_F(Faults, ACallHangsUntilItIsLetGoAndOthersDoNot) {
  Device device;
  RegisteredPage page;
  for (const FaultMoment moment : {FaultMoment::before, FaultMoment::after}) {
    page[0].store(0);
    plant({"cuStreamWriteValue64", 1, 1, FaultKind::hang, 0, moment});
    std::thread hanging([&] {
      EXPECT_STATUS(success, cuCtxSetCurrent(device.context));
      EXPECT_STATUS(success, write(device, page, 5));
    });
    while (test_api().hanging_calls() == 0) std::this_thread::yield();
    EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
    EXPECT_EQ(page[0].load(), moment == FaultMoment::before ? 0U : 5U);
    test_api().let_go();
    hanging.join();
    EXPECT_EQ(test_api().hanging_calls(), 0U);
    EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
    EXPECT_EQ(page[0].load(), 5U);
  }
}

TEST_F(Faults, ForgettingThemLetsGoOfWhatHangs) {
  Device device;
  plant({nullptr, 1, 9, FaultKind::hang});
  std::thread hanging([&] {
    int count = 0;
    EXPECT_STATUS(success, cuDeviceGetCount(&count));
    EXPECT_STATUS(success, cuDeviceGetCount(&count));
  });
  while (test_api().hanging_calls() == 0) std::this_thread::yield();
  test_api().clear_failures();
  hanging.join();
}

TEST_F(Faults, AHangEndsWithItsProcess) {
  SharedWords words;
  ChildProcess child([&](const ChildLink& link) {
    Device device;
    plant({nullptr, 1, 1, FaultKind::hang});
    std::thread watcher([&] {
      while (test_api().hanging_calls() == 0) std::this_thread::yield();
      link.ready();
    });
    int count = 0;
    (void)cuDeviceGetCount(&count);
    watcher.join();
    return 0;
  });
  EXPECT_EQ(child.wait_ready(), 1);
  child.kill();
  EXPECT_EQ(child.wait(), 128 + SIGKILL);
}

TEST_F(Faults, AStickyErrorBeforeACallIsWhatItReturns) {
  Device device;
  device.is_faulty = true;
  SharedWords words;
  words.register_here();
  plant({"cuStreamWriteValue64", 1, 1, FaultKind::sticky, kIllegalAddress});
  EXPECT_STATUS(illegal_address, write(device, words, 1));
  EXPECT_STATUS(illegal_address, cuStreamSynchronize(device.stream));
  EXPECT_EQ(words[0].load(), 0U);
}

TEST_F(Faults, BehindAStickyErrorWorkIsTakenAndNeverPerformed) {
  Device device;
  device.is_faulty = true;
  SharedWords words;
  words.register_here();
  EXPECT_STATUS(success, write(device, words, 1));
  EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
  plant({"cuStreamWriteValue64", 1, 1, FaultKind::sticky, kIllegalAddress, FaultMoment::after});
  EXPECT_STATUS(success, write(device, words, 2));
  EXPECT_STATUS(illegal_address, cuStreamSynchronize(device.stream));
  EXPECT_STATUS(illegal_address, write(device, words, 3));
  EXPECT_EQ(words[0].load(), 1U);
}

TEST_F(Faults, AStickyErrorComesBehindACallThatSubmitsNothing) {
  Device device;
  device.is_faulty = true;
  plant({"cuEventCreate", 1, 1, FaultKind::sticky, kIllegalAddress, FaultMoment::after});
  api::Event event = nullptr;
  EXPECT_STATUS(success, cuEventCreate(&event, api::kEventDisableTiming));
  EXPECT_STATUS(illegal_address, cuStreamQuery(device.stream));
}

TEST_F(Faults, AStickyErrorOfACallWithoutAContextIsOfAllContexts) {
  ::setenv("VRAMLINK_SIMCUDA_DEVICES", "2", 1);
  Device first(0);
  Device second(1);
  first.is_faulty = second.is_faulty = true;
  plant({"cuDeviceGetCount", 1, 1, FaultKind::sticky, kIllegalAddress});
  std::thread without_context([] {
    int count = 0;
    EXPECT_STATUS(success, cuDeviceGetCount(&count));
  });
  without_context.join();
  EXPECT_STATUS(illegal_address, cuStreamQuery(second.stream));
  EXPECT_STATUS(success, cuCtxSetCurrent(first.context));
  EXPECT_STATUS(illegal_address, cuStreamQuery(first.stream));
  EXPECT_STATUS(success, cuCtxSetCurrent(second.context));
}

TEST_F(Faults, ASparedThreadMeetsNothingAndIsNotCounted) {
  Device device;
  plant({nullptr, 1, 1, FaultKind::fail, kOutOfMemory});
  const std::uint64_t before = test_api().total_calls();
  int count = 0;
  test_api().spare_thread(true);
  EXPECT_STATUS(success, cuDeviceGetCount(&count));
  std::thread other([&] { EXPECT_STATUS(out_of_memory, cuDeviceGetCount(&count)); });
  other.join();
  test_api().spare_thread(false);
  EXPECT_EQ(test_api().total_calls(), before + 1);
}

TEST_F(Faults, AKilledProcessHasHadTheEffectOrNot) {
  for (const FaultMoment moment : {FaultMoment::before, FaultMoment::after}) {
    SharedWords words;
    ChildProcess child(with_device(words, [&](const Device& device, const ChildLink&) {
      // What waits first is there when the call is met, and goes on behind the kill.
      plant({"cuStreamWriteValue64", 2, 1, FaultKind::kill, 0, moment});
      EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, words.address(0), 1, 0));
      EXPECT_STATUS(success, cuStreamSynchronize(device.stream));
      (void)cuStreamWriteValue64_v2(device.stream, words.address(0), 2, 0);
      ADD_FAILURE() << "lives on";
    }));
    EXPECT_EQ(child.wait(), 128 + SIGKILL);
    if (moment == FaultMoment::before) {
      EXPECT_EQ(words[0].load(), 1U);
    } else {
      EXPECT_GE(words[0].load(), 1U) << "a dying device may get there, or not";
    }
  }
}

TEST_F(Faults, AStoppedProcessGoesOnWhereItWas) {
  for (const FaultMoment moment : {FaultMoment::before, FaultMoment::after}) {
    SharedWords words;
    ChildProcess child(with_device(words, [&](const Device& device, const ChildLink&) {
      plant({"cuStreamWriteValue64", 1, 1, FaultKind::stop, 0, moment});
      EXPECT_STATUS(success, cuStreamWriteValue64_v2(device.stream, words.address(0), 1, 0));
      words[1].store(1);
    }));
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED | WEXITED | WNOWAIT),
              0);
    EXPECT_EQ(info.si_code, CLD_STOPPED);
    // Submitted work goes on while its process is stopped.
    if (moment == FaultMoment::after) wait_until(words[0], 1);
    if (moment == FaultMoment::before) {
      EXPECT_EQ(words[0].load(), 0U);
    }
    EXPECT_EQ(words[1].load(), 0U);
    child.resume();
    EXPECT_EQ(child.wait(), 0);
    EXPECT_EQ(words[0].load(), 1U);
  }
}

TEST_F(Faults, ComeFromTheEnvironmentToo) {
  ::setenv("VRAMLINK_SIMCUDA_FAIL",
           "cuStreamCreate:2:1:2,cuEventCreate:2:1:fail=999@after,cuMemsetD8Async:1:1:delay=1000@"
           "as_driver,"
           "*:5:1:801,cuStreamQuery:1:1:sticky",
           1);
  api::Event event = nullptr;
  {
    Device device;  // four calls
    EXPECT_STATUS(not_supported, cuEventCreate(&event, 0));
    api::Stream stream = nullptr;
    EXPECT_STATUS(out_of_memory, cuStreamCreate(&stream, 0));
    EXPECT_STATUS(unknown, cuEventCreate(&event, 0));
    EXPECT_STATUS(success, cuEventDestroy_v2(event));
    EXPECT_STATUS(illegal_address, cuStreamQuery(device.stream));
    device.is_faulty = true;
  }
}

TEST_F(Faults, WhatCannotBePlantedIsRefused) {
  const auto refused = [](const Fault& fault) { return !test_api().plant(&fault); };
  EXPECT_TRUE(refused({"cuMakeCoffee"}));
  EXPECT_TRUE(refused({nullptr, 0}));
  for (int i = 0; i < 32; ++i) plant({"cuStreamQuery", 1000});
  EXPECT_TRUE(refused({"cuStreamQuery"}));
  test_api().clear_failures();
  plant({"cuStreamQuery", 1000});
}

TEST_F(Faults, AnEnvironmentThatIsNotUnderstoodEndsTheProgram) {
  for (const char* text : {"cuMakeCoffee:1:1:2", "cuInit:x:1:2", "cuInit:1:1:explode",
                           "cuInit:1:1:delay", "cuInit:1:1:2@noon", ":1:1:2", "cuInit:0:1:2"}) {
    ChildProcess child([text](const ChildLink&) {
      ::signal(SIGABRT, SIG_DFL);
      ::setenv("VRAMLINK_SIMCUDA_FAIL", text, 1);
      (void)cuInit(0);
      return 0;
    });
    EXPECT_EQ(child.wait(), 128 + SIGABRT) << text;
  }
}

}  // namespace
}  // namespace vramlink::simcuda
