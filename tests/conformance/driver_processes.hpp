// For tests of what several processes do to each other through a driver: the stand-in or a real
// one. A driver works in no process that was forked after it began, so the children come first, and
// each begins its own when the test lets it go.
#pragma once

#include <sys/mman.h>

#include <array>
#include <csignal>
#include <memory>
#include <utility>
#include <vector>

#include "backend/cuda/factory.hpp"
#include "conformance/driver_fixture.hpp"
#include "os/socket.hpp"
#include "support/child_process.hpp"
#include "support/shared_page.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink::test {

/// The driver in one of the processes, and the shared page registered with it. Without
/// destruction: what a process has ends with it.
class Client {
 public:
  explicit Client(const SharedPage& page) : page_(page) {
    static_cast<void>(raw().stream());  // makes the context current
    raw().expect(driver().mem_host_register(page.data(), SharedPage::kSizeBytes, 3));
    raw().expect(driver().mem_host_get_device_pointer(&words_, page.data(), 0));
    raw().expect(driver().stream_create(&beat_stream_, cuda_api::kStreamNonBlocking));
  }

  [[nodiscard]] static RawCuda& raw() { return *RawCuda::get(); }
  [[nodiscard]] static const cuda::Driver& driver() { return raw().driver(); }
  [[nodiscard]] static cuda_api::Stream stream() { return raw_stream(raw().stream()); }
  [[nodiscard]] static cuda_api::Stream other_stream() { return raw_stream(raw().other_stream()); }
  /// Of a word of the page, for the GPU.
  [[nodiscard]] cuda_api::DevicePointer address(std::size_t word) const {
    return words_ + word * sizeof(std::uint64_t);
  }
  void wait_word(cuda_api::Stream stream, std::size_t word, std::uint64_t value) const {
    raw().expect(driver().stream_wait_value_64(stream, address(word), value, 0));
  }
  void write_word(cuda_api::Stream stream, std::size_t word, std::uint64_t value) const {
    raw().expect(driver().stream_write_value_64(stream, address(word), value, 0));
  }
  /// Lets the GPU store `beat`, a word of this process's own, many times, and sees each: by then it
  /// has looked at its other streams as well.
  void let_time_pass(std::size_t beat, int count = 100) const {
    for (int i = 0; i < count; ++i) {
      const std::uint64_t next = page_[beat].load() + 1;
      write_word(beat_stream_, beat, next);
      page_.see(beat, next);
    }
  }
  [[nodiscard]] static std::uint64_t free_bytes() {
    static_cast<void>(raw().stream());  // makes the context current
    std::size_t free = 0;
    std::size_t total = 0;
    raw().expect(driver().mem_get_info(&free, &total));
    return free;
  }
  /// Waits until so much is free; the test's watchdog ends what hangs.
  static void see_free(std::uint64_t bytes) {
    while (free_bytes() < bytes) std::this_thread::yield();
  }

 private:
  const SharedPage& page_;
  cuda_api::DevicePointer words_ = 0;
  cuda_api::Stream beat_stream_ = nullptr;
};

/// Looks for no leaks: the first use of a driver comes inside a test, and what it opens stays open.
class DriverProcesses : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 8192;
  /// What a child ends with where it finds no GPU.
  static constexpr int kNoGpu = 77;
  // Words of the page.
  static constexpr std::size_t kGate = 0;
  static constexpr std::size_t kDone = 8;
  static constexpr std::size_t kBeat = 16;
  static constexpr std::size_t kHandle = 32;  ///< an IPC handle, on its own lines

  /// An account of its own for the stand-in.
  DriverProcesses() { ::setenv("VRAMLINK_SIMCUDA_DIR", directory_.path().c_str(), 1); }
  void SetUp() override {
    if (RawCuda::own().contexts != 0) {
      GTEST_SKIP() << "the child would have no driver: run it alone, as ctest does";
    }
  }

  static std::vector<std::byte> bytes_of(int value) {
    return std::vector<std::byte>(kBytes, static_cast<std::byte>(value));
  }
  static std::byte* to_bytes(cuda_api::DevicePointer address) {
    return reinterpret_cast<std::byte*>(address);
  }
  static std::unique_ptr<backend::Backend> make_backend() {
    return std::move(cuda::find_devices().value().backends.at(0));
  }
  static bool faults_are_kept_apart() {
    int mps = 0;
    const RawCuda& raw = *RawCuda::get();
    const cuda_api::Status status = raw.driver().device_get_attribute(
        &mps, cuda_api::DeviceAttribute::mps_enabled, raw.devices()[0]);
    return status != cuda_api::Status::success || mps == 0;
  }
  /// Whether the GPU of this process does what it is asked for.
  static void expect_health() {
    RawCuda& raw = *RawCuda::get();
    std::byte* const memory = raw.allocate(kBytes);
    raw.write(memory, bytes_of(9));
    EXPECT_EQ(raw.read(memory, kBytes), bytes_of(9));
    raw.free(memory);
  }
  /// Waits for a message of the socket, and returns its descriptor.
  static os::UniqueFd receive_fd(const os::Socket& socket) {
    std::array<std::byte, 8> buffer{};
    for (;;) {
      auto received = socket.receive(buffer);
      if (received) return std::move(received->fds.at(0));
      if (!received.failed_with(Code::empty)) {
        ADD_FAILURE() << to_string(received.error());
        return {};
      }
      std::this_thread::yield();
    }
  }
  static void send_fd(const os::Socket& socket, int fd) {
    const std::array<std::byte, 1> message{};
    EXPECT_TRUE(socket.send(message, {&fd, 1}));
  }
  /// Ends a child as its body would, but without destructors, which may wait for what never comes.
  [[noreturn]] static void end_here() {
    end_child(HasFailure() ? ChildProcess::kFailedExpectation : 0);
  }

  TemporaryDirectory directory_;
  SharedPage page_;
};

}  // namespace vramlink::test
