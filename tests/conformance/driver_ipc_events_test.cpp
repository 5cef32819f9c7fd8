// Events of two processes, and why the library uses words instead: the headings "A wait for a word
// can be ended by the waiter", "A recorded event means its last record" and "Users and containers
// part events before memory" of docs/cuda_notes.md. A stream that waits for what never comes hangs
// until its process ends, so all that waits is in children.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "conformance/driver_processes.hpp"
#include "os/dynamic_library.hpp"
#include "support/other_user.hpp"

namespace vramlink::test {
namespace {

using cuda_api::Status;

// Words of the page.

class DriverIpcEvents : public DriverProcesses {
 protected:
  static constexpr unsigned kShared = cuda_api::kEventInterprocess | cuda_api::kEventDisableTiming;

  [[nodiscard]] cuda_api::IpcEventHandle& handle() const {
    return page_.at<cuda_api::IpcEventHandle>(kHandle);
  }
  [[nodiscard]] cuda_api::Event share() const {
    RawCuda& raw = *RawCuda::get();
    cuda_api::Event event = nullptr;
    static_cast<void>(raw.stream());  // makes the context current
    raw.expect(raw.driver().event_create(&event, kShared));
    raw.expect(raw.ipc_get_event_handle(&handle(), event));
    return event;
  }
  [[nodiscard]] Status open(cuda_api::Event& event) const {
    static_cast<void>(RawCuda::get()->stream());  // makes the context current
    return RawCuda::get()->ipc_open_event_handle(&event, handle());
  }
  /// A child that shares an event whose record stands behind the gate, and lives on. With
  /// `earlier`, another record of it was complete before.
  [[nodiscard]] ChildProcess::Body recorder(bool earlier) const {
    return [this, earlier](const ChildLink& link) -> int {
      static_cast<void>(link.wait_go());
      if (RawCuda::get() == nullptr) return kNoGpu;
      const Client client(page_);
      const cuda_api::Event event = share();
      if (earlier) {
        Client::raw().expect(Client::driver().event_record(event, Client::stream()));
        Client::raw().expect(Client::raw().event_synchronize(event));
      }
      client.wait_word(Client::stream(), kGate, 1);
      Client::raw().expect(Client::driver().event_record(event, Client::stream()));
      link.ready();
      link.wait_forever();
    };
  }
  /// A child that waits for the event in a stream, with a word behind that. It says so, and
  /// `then` comes when it may go on.
  [[nodiscard]] ChildProcess::Body waiter(
      const std::function<void(const Client&, cuda_api::Event)>& then) const {
    return [this, then](const ChildLink& link) -> int {
      static_cast<void>(link.wait_go());
      const Client client(page_);
      cuda_api::Event event = nullptr;
      EXPECT_GIVES(success, open(event));
      Client::raw().expect(Client::driver().stream_wait_event(Client::stream(), event, 0));
      client.write_word(Client::stream(), kDone, 1);
      link.ready();
      static_cast<void>(link.wait_go());
      then(client, event);
      end_here();
    };
  }
  /// A child that tries to open the event after `move`, which says whether that was permitted.
  [[nodiscard]] ChildProcess::Body stranger(const std::function<bool()>& move) const {
    return [this, move](const ChildLink& link) -> int {
      static_cast<void>(link.wait_go());
      // Loaded before, since it may be out of reach afterwards.
      EXPECT_TRUE(os::DynamicLibrary::open(cuda::Driver::library_name().c_str()));
      if (!move()) return kNotPermitted;
      if (RawCuda::get() == nullptr) return kNoGpu;
      cuda_api::Event event = nullptr;
      EXPECT_GIVES(map_failed, open(event));
      end_here();
    };
  }
  /// Shares an event of this process with a stranger.
  void meet(ChildProcess& other) const {
    if (!RawCuda::require()) return;
    if (!faults_are_kept_apart()) GTEST_SKIP() << "under MPS a process of another user hangs";
    const cuda_api::Event event = share();
    other.go();
    const int end = other.wait();
    RawCuda::get()->expect(RawCuda::get()->driver().event_destroy(event));
    if (end == kNotPermitted) GTEST_SKIP() << "the system does not permit it";
    if (end == kNoGpu && !RawCuda::is_stand_in()) GTEST_SKIP() << "it may not use this GPU";
    EXPECT_EQ(end, 0);
  }

  static constexpr int kNotPermitted = 78;
};

TEST_F(DriverIpcEvents, ThePendingRecordOfADeadProcessNeverCompletes) {
  ChildProcess dying(recorder(false));
  ChildProcess waiting(waiter([this](const Client& client, cuda_api::Event event) {
    client.let_time_pass(kBeat, 200);
    EXPECT_GIVES(not_ready, Client::driver().event_query(event));
    EXPECT_GIVES(not_ready, Client::driver().stream_query(Client::stream()));
    EXPECT_EQ(page_[kDone].load(), 0U);
  }));
  if (!RawCuda::require()) return;
  dying.go();
  dying.wait_ready();
  waiting.go();
  waiting.wait_ready();
  dying.kill();
  EXPECT_EQ(dying.wait(), 128 + SIGKILL);
  page_[kGate].store(1);
  waiting.go();
  EXPECT_EQ(waiting.wait(), 0);  // which ends the wait
}

TEST_F(DriverIpcEvents, ALaterRecordConfusesWhoWaitsForTheEarlierOne) {
  ChildProcess recording(recorder(true));
  ChildProcess waiting(waiter([this](const Client& client, cuda_api::Event) {
    // For the record that was complete long before, it thinks.
    client.let_time_pass(kBeat);
    EXPECT_GIVES(not_ready, Client::driver().stream_query(Client::stream()));
    EXPECT_EQ(page_[kDone].load(), 0U);
    page_[kGate].store(1);
    page_.see(kDone, 1);
  }));
  if (!RawCuda::require()) return;
  recording.go();
  recording.wait_ready();
  waiting.go();
  waiting.wait_ready();
  waiting.go();
  EXPECT_EQ(waiting.wait(), 0);
}

TEST_F(DriverIpcEvents, TheCreatorItselfCannotOpenAHandle) {
  if (!RawCuda::require()) return;
  const cuda_api::Event event = share();
  cuda_api::Event opened = nullptr;
  EXPECT_NE(open(opened), Status::success);
  RawCuda::get()->expect(RawCuda::get()->driver().event_destroy(event));
}

TEST_F(DriverIpcEvents, AnEventOfOneProcessHasNoHandle) {
  if (!RawCuda::require()) return;
  const cuda::Driver& driver = RawCuda::get()->driver();
  static_cast<void>(RawCuda::get()->stream());  // makes the context current
  cuda_api::Event event = nullptr;
  EXPECT_GIVES(invalid_value, driver.event_create(&event, cuda_api::kEventInterprocess));
  RawCuda::get()->expect(driver.event_create(&event, cuda_api::kEventDisableTiming));
  EXPECT_NE(RawCuda::get()->ipc_get_event_handle(&handle(), event), Status::success);
  RawCuda::get()->expect(driver.event_destroy(event));
}

TEST_F(DriverIpcEvents, AnotherUserCannotOpenAHandle) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0777), 0);
  ChildProcess other(stranger(become_nobody));
  meet(other);
}

TEST_F(DriverIpcEvents, AnotherNamespaceCannotOpenAHandle) {
  ChildProcess other(stranger(enter_own_namespaces));
  meet(other);
}

}  // namespace
}  // namespace vramlink::test
