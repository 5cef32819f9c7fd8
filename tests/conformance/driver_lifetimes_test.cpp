// Who dies first, and what is left: the headings "Memory outlives its owner" and "A dead process is
// not dead yet" of docs/cuda_notes.md, for both ways in which memory goes to another process.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>

#include "conformance/driver_processes.hpp"
#include "support/stand_in.hpp"

namespace vramlink::test {
namespace {

constexpr std::uint64_t kShareBytes = std::uint64_t{64} << 20;
/// More than what a driver takes and gives back by the way.
constexpr std::uint64_t kMostBytes = kShareBytes / 4 * 3;

/// How memory goes to another process.
enum class Way : std::uint8_t { handle, descriptor };
const char* name_of(Way way) { return way == Way::handle ? "ByHandle" : "ByDescriptor"; }
void PrintTo(Way way, std::ostream* stream) { *stream << name_of(way); }

class DriverLifetimes : public DriverProcesses, public ::testing::WithParamInterface<Way> {
 protected:
  /// Memory for another process, all bytes with one value.
  class Shared {
   public:
    Shared(const DriverLifetimes& test, int value) {
      RawCuda& raw = *RawCuda::get();
      if (GetParam() == Way::handle) {
        address_ = device_pointer(raw.allocate(kShareBytes));
        raw.expect(raw.ipc_get_mem_handle(&test.handle(), address_));
      } else {
        backend_ = make_backend();
        memory_ = backend_->allocate(kShareBytes).value();
        address_ = device_pointer(memory_->data());
        send_fd(test.ours_, memory_->export_memory().value().get());
      }
      fill(value);
    }
    void fill(int value) const {
      raw_expect(RawCuda::get()->driver().memset_d8_async(
          address_, static_cast<unsigned char>(value), kShareBytes, Client::stream()));
      RawCuda::get()->finish(RawCuda::get()->stream());
    }
    /// Whether the first and the last bytes have the value.
    [[nodiscard]] bool holds(int value) const { return DriverLifetimes::holds(address_, value); }
    void free() {
      if (memory_) return memory_.reset();
      RawCuda::get()->free(to_bytes(address_));
    }
    [[nodiscard]] cuda_api::DevicePointer address() const { return address_; }

   private:
    std::unique_ptr<backend::Backend> backend_;
    std::unique_ptr<backend::Memory> memory_;
    cuda_api::DevicePointer address_ = 0;
  };

  /// The same in the other process.
  class Opened {
   public:
    explicit Opened(const DriverLifetimes& test) {
      RawCuda& raw = *RawCuda::get();
      if (GetParam() == Way::handle) {
        raw.expect(raw.ipc_open_mem_handle(&address_, test.handle(), cuda_api::kIpcLazyPeerAccess));
      } else {
        backend_ = make_backend();
        imported_ =
            backend_->import_memory(receive_fd(test.theirs_), kShareBytes, os::Access::read_write)
                .value();
        address_ = device_pointer(imported_->data());
      }
    }
    [[nodiscard]] bool holds(int value) const { return DriverLifetimes::holds(address_, value); }
    void close() {
      if (imported_) return imported_.reset();
      raw_expect(RawCuda::get()->ipc_close_mem_handle(address_));
    }
    [[nodiscard]] cuda_api::DevicePointer address() const { return address_; }

   private:
    std::unique_ptr<backend::Backend> backend_;
    std::unique_ptr<backend::ImportedMemory> imported_;
    cuda_api::DevicePointer address_ = 0;
  };

  static void raw_expect(cuda_api::Status status) { RawCuda::get()->expect(status); }
  static bool holds(cuda_api::DevicePointer address, int value) {
    RawCuda& raw = *RawCuda::get();
    return raw.read(to_bytes(address), kBytes) == bytes_of(value) &&
           raw.read(to_bytes(address + kShareBytes - kBytes), kBytes) == bytes_of(value);
  }
  [[nodiscard]] cuda_api::IpcMemoryHandle& handle() const {
    return page_.at<cuda_api::IpcMemoryHandle>(kHandle);
  }

  std::pair<os::Socket, os::Socket> sockets_ = os::Socket::pair().value();
  const os::Socket& ours_ = sockets_.first;     // the exporter's
  const os::Socket& theirs_ = sockets_.second;  // the importer's
};

INSTANTIATE_TEST_SUITE_P(, DriverLifetimes, ::testing::Values(Way::handle, Way::descriptor),
                         [](const auto& parameter) { return name_of(parameter.param); });

TEST_P(DriverLifetimes, WhatIsFreedStaysUntilItsImporterLetsGo) {
  ChildProcess importer([this](const ChildLink& link) -> int {
    static_cast<void>(link.wait_go());
    Opened memory(*this);
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_TRUE(memory.holds(3));
    memory.close();
    link.ready();
    static_cast<void>(link.wait_go());
    end_here();
  });
  if (!RawCuda::require()) return;
  Shared memory(*this, 3);
  importer.go();
  importer.wait_ready();
  const std::uint64_t with_it = Client::free_bytes();
  memory.free();
  std::byte* const next = RawCuda::get()->allocate(kShareBytes);  // perhaps at the same address
  RawCuda::get()->write(next, bytes_of(4));
  const std::uint64_t freed = Client::free_bytes();
  if (!RawCuda::is_shared()) {
    EXPECT_LE(freed + kMostBytes, with_it);
  }
  importer.go();
  importer.wait_ready();
  if (!RawCuda::is_shared()) Client::see_free(freed + kMostBytes);
  importer.go();
  EXPECT_EQ(importer.wait(), 0);
  RawCuda::get()->free(next);
}

TEST_P(DriverLifetimes, ADeadExportersMemoryStaysUntilItsImporterLetsGo) {
  ChildProcess exporter([this](const ChildLink& link) -> int {
    static_cast<void>(link.wait_go());
    const Shared memory(*this, 5);
    link.ready();
    link.wait_forever();
  });
  if (!RawCuda::require()) return;
  exporter.go();
  exporter.wait_ready();
  Opened memory(*this);
  EXPECT_TRUE(memory.holds(5));
  exporter.kill();
  EXPECT_EQ(exporter.wait(), 128 + SIGKILL);
  EXPECT_TRUE(memory.holds(5));
  RawCuda& raw = *RawCuda::get();
  raw.write(to_bytes(memory.address()), bytes_of(6));
  EXPECT_EQ(raw.read(to_bytes(memory.address()), kBytes), bytes_of(6));
  const std::uint64_t with_it = Client::free_bytes();
  memory.close();
  if (!RawCuda::is_shared()) Client::see_free(with_it + kMostBytes);
  expect_health();
}

TEST_P(DriverLifetimes, ADeadImporterLeavesItsExporterWell) {
  ChildProcess importer([this](const ChildLink& link) -> int {
    static_cast<void>(link.wait_go());
    const Opened memory(*this);
    EXPECT_TRUE(memory.holds(7));
    RawCuda::get()->write(to_bytes(memory.address()), bytes_of(8));
    link.ready();
    link.wait_forever();
  });
  if (!RawCuda::require()) return;
  Shared memory(*this, 7);
  importer.go();
  importer.wait_ready();
  importer.kill();
  EXPECT_EQ(importer.wait(), 128 + SIGKILL);
  EXPECT_EQ(RawCuda::get()->read(to_bytes(memory.address()), kBytes), bytes_of(8));
  memory.fill(9);
  EXPECT_TRUE(memory.holds(9));
  const std::uint64_t with_it = Client::free_bytes();
  memory.free();
  if (!RawCuda::is_shared()) Client::see_free(with_it + kMostBytes);
  expect_health();
}

TEST_P(DriverLifetimes, NothingOfADeadImporterIsDoneAfterItsPidfdFired) {
  ChildProcess importer([this](const ChildLink& link) -> int {
    static_cast<void>(link.wait_go());
    const Client client(page_);
    const Opened memory(*this);
    const TestKernels kernels(Client::raw());
    // One stream stands still behind a kernel, with a word behind it; another one writes on.
    Client::raw().expect(
        kernels.spin_until(Client::raw().other_stream(), client.address(kGate), 1));
    client.write_word(Client::other_stream(), kDone, 1);
    link.ready();
    for (std::uint32_t value = 1;; ++value) {
      Client::raw().expect(
          kernels.fill(Client::raw().stream(), memory.address(), value, kBytes / 4));
    }
  });
  if (!RawCuda::require()) return;
  if (!faults_are_kept_apart()) GTEST_SKIP() << "under MPS one server has the work of all";
  const Client client(page_);
  const Shared memory(*this, 0);
  const os::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, importer.pid(), 0)));
  ASSERT_TRUE(pidfd) << std::strerror(errno);
  importer.go();
  importer.wait_ready();
  const auto read = [&] { return RawCuda::get()->read(to_bytes(memory.address()), kBytes); };
  while (read() == bytes_of(0)) std::this_thread::yield();
  importer.kill();
  pollfd fired{pidfd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&fired, 1, -1), 1);
  const std::vector<std::byte> then = read();
  page_[kGate].store(1);
  client.let_time_pass(kBeat, 200);
  EXPECT_EQ(read(), then);
  EXPECT_EQ(page_[kDone].load(), 0U);
  EXPECT_EQ(importer.wait(), 128 + SIGKILL);
  expect_health();
}

class DriverDeaths : public DriverProcesses {};

TEST_F(DriverDeaths, TheEndOfASocketComesBeforeThePidfd) {
  constexpr std::uint8_t kFoundNone = 2;
  constexpr std::uint8_t kEndsEarly = 3;
  constexpr int kRoundMax = 10;
  // Long enough for the stand-in that a test which waits for its turn sees what comes first.
  ::setenv("VRAMLINK_SIMCUDA_TEARDOWN_US", "200000", 1);
  bool socket_was_first = false;
  for (int round = 0; round < kRoundMax && !socket_was_first; ++round) {
    std::array<int, 2> ends{-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const os::UniqueFd ours(ends[0]);
    os::UniqueFd theirs(ends[1]);
    ChildProcess child([&](const ChildLink& link) -> int {
      ::close(ends[0]);
      if (RawCuda::get() == nullptr) {
        link.ready(kFoundNone);
        return 0;
      }
      static_cast<void>(RawCuda::get()->allocate(kShareBytes));
      const bool ends_early =
          RawCuda::is_stand_in() && stand_in()->work_ends() != simcuda::WorkEnds::with_pidfd;
      link.ready(ends_early ? kEndsEarly : 1);
      link.wait_forever();
    });
    theirs.reset();
    const std::uint8_t said = child.wait_ready();
    if (said == kFoundNone) {
      static_cast<void>(RawCuda::require());
      return;
    }
    if (said == kEndsEarly) GTEST_SKIP() << "tracing is not permitted here: both come at once";
    const os::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid(), 0)));
    ASSERT_TRUE(pidfd) << std::strerror(errno);
    child.kill();
    std::array<pollfd, 2> polled{pollfd{ours.get(), POLLIN, 0}, pollfd{pidfd.get(), POLLIN, 0}};
    EXPECT_GE(::poll(polled.data(), polled.size(), -1), 1);
    EXPECT_NE(polled[0].revents, 0);  // never the pidfd alone
    socket_was_first = polled[1].revents == 0;
    EXPECT_EQ(::poll(&polled[1], 1, -1), 1);
    EXPECT_EQ(child.wait(), 128 + SIGKILL);
  }
  EXPECT_TRUE(socket_was_first) << "in none of " << kRoundMax << " rounds";
}

}  // namespace
}  // namespace vramlink::test
