// A device in this process whose streams stand still until the test steps them: every order of
// device work, the same every time. Memory is the host's, so that tests can look at it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.hpp"

namespace vramlink::test {

/// The name of such a device.
constexpr DeviceId fake_device(std::uint8_t number = 1) noexcept {
  DeviceId id;
  id.uuid[0] = 0xfa;
  id.uuid[15] = number;
  return id;
}

/// Thread-safe. Streams are made by stream(n) and live as long as this.
class FakeBackend final : public backend::Backend {
 public:
  explicit FakeBackend(DeviceId device = fake_device());
  FakeBackend(const FakeBackend&) = delete;
  FakeBackend& operator=(const FakeBackend&) = delete;
  ~FakeBackend() override;

  // What a test does with it.
  [[nodiscard]] StreamView stream(int number);
  /// Work of the test's own, in a stream.
  void enqueue(int stream, std::function<void()> work);
  /// Performs up to `count` operations of a stream; returns how many. Stops at a wait that is not
  /// satisfied. A batch of words is one operation a word.
  int step(int stream, int count = 1);
  /// Performs all that can be performed, in every stream, or in one.
  void run();
  void run(int stream) { static_cast<void>(step(stream, 1'000'000)); }
  [[nodiscard]] std::size_t pending(int stream);
  /// The stream that copies run on.
  static constexpr int kCopyStream = 1000;

  /// The next `count` calls of this name fail with the code.
  void fail(const std::string& call, Code code = Code::driver, int count = 1);
  /// The next call of this name (wait, signal, copy) does what it should, and says that it failed.
  void fail_late(const std::string& call);
  /// From now on submissions succeed and nothing is performed.
  void break_down();
  [[nodiscard]] int calls(const std::string& call) const;
  /// The words of every batch that was signalled, by the device or at once.
  struct Batch {
    std::vector<backend::WordWrite> writes;
    bool by_copy = false;
  };
  [[nodiscard]] std::vector<Batch> batches() const;
  [[nodiscard]] int registered_pages() const;

  // Backend.
  [[nodiscard]] DeviceId device() const noexcept override { return device_; }
  [[nodiscard]] const backend::Capabilities& capabilities() const noexcept override {
    return capabilities_;
  }
  [[nodiscard]] Result<std::unique_ptr<backend::Memory>> allocate(
      std::uint64_t size_bytes) override;
  [[nodiscard]] Result<std::unique_ptr<backend::ImportedMemory>> import_memory(
      os::UniqueFd fd, std::uint64_t size_bytes, os::Access access) override;
  [[nodiscard]] Result<std::unique_ptr<backend::RegisteredWords>> register_words(
      std::span<std::byte> pages) override;
  [[nodiscard]] Result<void> signal(StreamView stream,
                                    std::span<const backend::WordWrite> writes) override;
  [[nodiscard]] Result<void> wait(StreamView stream, backend::WordRef word,
                                  std::uint64_t value) override;
  [[nodiscard]] Result<void> copy(StreamView stream, std::byte* target, const std::byte* source,
                                  std::uint64_t size_bytes) override;
  [[nodiscard]] Result<void> order(StreamView earlier, StreamView later) override;
  [[nodiscard]] Result<void> check_stream(StreamView stream) override;
  [[nodiscard]] Result<std::unique_ptr<backend::CopyQueue>> make_copy_queue() override;
  [[nodiscard]] Result<void> check_health() override;

 private:
  friend class FakeCopyQueue;
  friend class FakeWords;
  /// Returns false if it cannot be performed yet.
  using Operation = std::function<bool()>;
  struct Stream {
    int number;
    std::deque<Operation> operations;
  };

  // Under the mutex.
  [[nodiscard]] Result<void> begin(const char* call);
  [[nodiscard]] Result<void> end(const char* call);
  [[nodiscard]] Result<Stream*> find(StreamView stream, const char* call);
  void store_all(Stream* stream, std::vector<backend::WordWrite> writes, bool by_copy);
  void put(Stream* stream, Operation operation);
  Stream& stream_of(int number);
  Result<void> order_streams(Stream* earlier, Stream* later);

  const DeviceId device_;
  backend::Capabilities capabilities_;
  const std::unique_ptr<backend::Backend> host_;
  mutable std::recursive_mutex mutex_;
  std::map<int, std::unique_ptr<Stream>> streams_;
  std::map<std::string, int> calls_;
  std::map<std::string, std::pair<Code, int>> failures_;
  std::set<std::string> late_failures_;
  std::vector<Batch> batches_;
  std::map<const std::byte*, int> registered_;
  bool broken_ = false;
};

}  // namespace vramlink::test
