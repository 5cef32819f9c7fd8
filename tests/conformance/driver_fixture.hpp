// For tests of the driver itself, which run on the stand-in and on a real one alike: what
// docs/cuda_notes.md says of it is what the back end relies on, and what the stand-in imitates.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "conformance/cuda_fixture.hpp"
#include "support/test_kernels.hpp"

namespace vramlink::test {

/// The least that a device has in one piece.
inline constexpr std::uint64_t kUnit = std::uint64_t{2} << 20;

/// EXPECT_EQ of two statuses, by name.
inline ::testing::AssertionResult gave(cuda_api::Status wanted, cuda_api::Status got) {
  if (wanted == got) return ::testing::AssertionSuccess();
  const auto name = [](cuda_api::Status status) {
    const char* text = nullptr;
    static_cast<void>(RawCuda::get()->driver().get_error_name(status, &text));
    return text == nullptr ? std::to_string(static_cast<int>(status)) : std::string(text);
  };
  return ::testing::AssertionFailure() << name(got) << " instead of " << name(wanted);
}

#define EXPECT_GIVES(wanted, call) EXPECT_TRUE(gave(cuda_api::Status::wanted, (call))) << #call

/// Fails the test, and ends what it waits for, if it has not ended in time: a mistake must not
/// leave a GPU standing still.
class GateWatch {
 public:
  explicit GateWatch(std::function<void()> end)
      : thread_([this, end = std::move(end)] {
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, kTime, [this] { return is_over_; })) return;
          ADD_FAILURE() << "something stood still that must not";
          end();
        }) {}
  GateWatch(const GateWatch&) = delete;
  GateWatch& operator=(const GateWatch&) = delete;
  ~GateWatch() {
    {
      const std::scoped_lock lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  static constexpr std::chrono::seconds kTime{30};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

/// A thread that makes one call. The destructor waits for its return.
class Caller {
 public:
  explicit Caller(std::function<cuda_api::Status()> call)
      : thread_([this, call = std::move(call)] {
          RawCuda& raw = *RawCuda::get();
          raw.expect(raw.ctx_set_current(raw.context()));
          has_begun_.store(true);
          raw.expect(call());
          has_returned_.store(true);
        }) {
    while (!has_begun_.load()) std::this_thread::yield();
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() { thread_.join(); }

  [[nodiscard]] bool has_returned() const { return has_returned_.load(); }

 private:
  std::atomic<bool> has_begun_{false};
  std::atomic<bool> has_returned_{false};
  std::thread thread_;
};

class DriverRules : public CudaBackend {
 protected:
  static constexpr std::uint32_t kGate = 0;
  static constexpr std::uint32_t kBeat = 8;
  static constexpr std::uint32_t kDone = 16;

  void SetUp() override {
    CudaBackend::SetUp();
    if (!backend_) return;
    page_.emplace(*backend_);
    static_cast<void>(raw().stream());  // makes the context current
    raw().expect(driver().mem_host_get_device_pointer(&words_, &(*page_)[0], 0));
    raw().expect(driver().stream_create(&beat_stream_, cuda_api::kStreamNonBlocking));
    gate_watch_.emplace([this] { open(WordPage::kFarAhead); });
  }
  void TearDown() override {
    if (!page_) return;
    open(WordPage::kFarAhead);
    raw().finish(raw().stream());
    raw().finish(raw().other_stream());
    raw().expect(driver().stream_destroy(beat_stream_));
    gate_watch_.reset();
  }

  static const cuda::Driver& driver() { return raw().driver(); }
  static cuda_api::Stream stream() { return raw_stream(raw().stream()); }
  /// Of a word of the page, for the GPU.
  [[nodiscard]] cuda_api::DevicePointer address(std::uint32_t word) const {
    return words_ + word * sizeof(std::uint64_t);
  }
  [[nodiscard]] std::atomic<std::uint64_t>& word(std::uint32_t index) const {
    return (*page_)[index];
  }
  void open(std::uint64_t value) const { word(kGate).store(value, std::memory_order_release); }

  /// Lets the GPU do something in a stream of its own and waits until it is seen, `count` times:
  /// by then it has looked at its other streams as well.
  void let_time_pass(int count = 100) {
    for (int i = 0; i < count; ++i) {
      raw().expect(driver().stream_write_value_64(beat_stream_, address(kBeat), ++beat_, 0));
      page_->see(kBeat, beat_);
    }
  }

  /// Asks the driver so often that a call of another thread that did not stop has returned: the
  /// queries are not among what stays behind one that stopped.
  static void let_calls_pass() {
    const cuda_api::Stream other = raw_stream(raw().other_stream());
    for (int i = 0; i < 50'000; ++i) {
      const cuda_api::Status status = driver().stream_query(other);
      if (status != cuda_api::Status::not_ready) raw().expect(status);
    }
  }

  std::optional<WordPage> page_;
  cuda_api::DevicePointer words_ = 0;
  cuda_api::Stream beat_stream_ = nullptr;
  std::uint64_t beat_ = 0;
  std::optional<GateWatch> gate_watch_;
};

}  // namespace vramlink::test
