#include "support/fake_backend.hpp"

#include <cstring>
#include <utility>

#include "backend/host/factory.hpp"
#include "base/assert.hpp"
#include "base/driver_calls.hpp"
#include "base/try.hpp"

namespace vramlink::test {

class FakeWords final : public backend::RegisteredWords {
 public:
  FakeWords(FakeBackend& backend, std::span<std::byte> pages)
      : backend_(backend),
        pages_(pages),
        words_(reinterpret_cast<std::atomic<std::uint64_t>*>(pages.data()), pages.size() / 8) {
    ++backend_.registered_[pages_.data()];
  }
  FakeWords(const FakeWords&) = delete;
  FakeWords& operator=(const FakeWords&) = delete;
  ~FakeWords() override {
    base::expect_driver_calls_allowed();
    const std::lock_guard lock(backend_.mutex_);
    if (--backend_.registered_[pages_.data()] == 0) backend_.registered_.erase(pages_.data());
  }
  [[nodiscard]] std::span<std::atomic<std::uint64_t>> words() const noexcept override {
    return words_;
  }

 private:
  FakeBackend& backend_;
  const std::span<std::byte> pages_;
  std::span<std::atomic<std::uint64_t>> words_;
};

namespace {

std::atomic<std::uint64_t>& at(backend::WordRef word) { return word.page->words()[word.index]; }

struct FakeCopy final : backend::SlotCopy {
  FakeCopy() = default;
  FakeCopy(const FakeCopy&) = delete;
  FakeCopy& operator=(const FakeCopy&) = delete;
  ~FakeCopy() override { base::expect_driver_calls_allowed(); }
  std::byte* target = nullptr;
  std::uint64_t size_bytes = 0;
  std::vector<backend::WordRef> words;
};

}  // namespace

class FakeCopyQueue final : public backend::CopyQueue {
 public:
  explicit FakeCopyQueue(FakeBackend& backend) : backend_(backend) {}
  FakeCopyQueue(const FakeCopyQueue&) = delete;
  FakeCopyQueue& operator=(const FakeCopyQueue&) = delete;
  ~FakeCopyQueue() override { base::expect_driver_calls_allowed(); }

  [[nodiscard]] StreamView stream() const noexcept override {
    return backend_.stream(FakeBackend::kCopyStream);
  }
  [[nodiscard]] Result<std::unique_ptr<backend::SlotCopy>> prepare(
      std::byte* target, std::uint64_t size_bytes,
      std::span<const backend::WordRef> words) override {
    const std::lock_guard lock(backend_.mutex_);
    VRAMLINK_CHECK(backend_.begin("prepare"));
    auto copy = std::make_unique<FakeCopy>();
    copy->target = target;
    copy->size_bytes = size_bytes;
    copy->words.assign(words.begin(), words.end());
    return std::unique_ptr<backend::SlotCopy>(std::move(copy));
  }
  [[nodiscard]] Result<void> submit(backend::SlotCopy& copy, StreamView source_stream,
                                    const std::byte* source,
                                    std::span<const std::uint64_t> values) override {
    const std::lock_guard lock(backend_.mutex_);
    VRAMLINK_CHECK(backend_.begin("submit"));
    const auto& prepared = static_cast<const FakeCopy&>(copy);
    VRAMLINK_ASSERT(values.size() == prepared.words.size());
    std::vector<backend::WordWrite> writes;
    for (std::size_t i = 0; i < values.size(); ++i) {
      writes.push_back({prepared.words[i], values[i]});
    }
    return copy_now("submit", source_stream, prepared.target, source, prepared.size_bytes,
                    std::move(writes));
  }
  [[nodiscard]] Result<void> submit_once(StreamView source_stream, std::byte* target,
                                         const std::byte* source, std::uint64_t size_bytes,
                                         std::span<const backend::WordWrite> writes) override {
    const std::lock_guard lock(backend_.mutex_);
    VRAMLINK_CHECK(backend_.begin("submit_once"));
    return copy_now("submit_once", source_stream, target, source, size_bytes,
                    {writes.begin(), writes.end()});
  }

 private:
  [[nodiscard]] Result<void> copy_now(const char* call, StreamView source_stream, std::byte* target,
                                      const std::byte* source, std::uint64_t size_bytes,
                                      std::vector<backend::WordWrite> writes) {
    FakeBackend::Stream* const from = VRAMLINK_TRY(backend_.find(source_stream, call));
    FakeBackend::Stream& own = backend_.stream_of(FakeBackend::kCopyStream);
    VRAMLINK_CHECK(backend_.order_streams(from, &own));
    backend_.put(&own, [=] {
      std::memcpy(target, source, static_cast<std::size_t>(size_bytes));
      return true;
    });
    backend_.store_all(&own, std::move(writes), true);
    return {};
  }

  FakeBackend& backend_;
};

FakeBackend::FakeBackend(DeviceId device)
    : device_(device),
      capabilities_{.memory_kind = wire::MemoryKind::device, .cpu_access = true, .streams = true},
      host_(host::create()) {}

FakeBackend::~FakeBackend() = default;

FakeBackend::Stream& FakeBackend::stream_of(int number) {
  std::unique_ptr<Stream>& stream = streams_[number];
  if (!stream) stream = std::make_unique<Stream>(Stream{number, {}});
  return *stream;
}

StreamView FakeBackend::stream(int number) {
  const std::lock_guard lock(mutex_);
  return StreamView::cuda(&stream_of(number));
}

void FakeBackend::enqueue(int stream, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  put(&stream_of(stream), [work = std::move(work)] {
    work();
    return true;
  });
}

int FakeBackend::step(int stream, int count) {
  const std::lock_guard lock(mutex_);
  Stream& queue = stream_of(stream);
  int done = 0;
  while (done < count && !broken_ && !queue.operations.empty() && queue.operations.front()()) {
    queue.operations.pop_front();
    ++done;
  }
  return done;
}

void FakeBackend::run() {
  const std::lock_guard lock(mutex_);
  bool moved = true;
  while (moved) {
    moved = false;
    for (const auto& [number, stream] : streams_) moved = step(number, 1'000'000) != 0 || moved;
  }
}

std::size_t FakeBackend::pending(int stream) {
  const std::lock_guard lock(mutex_);
  return stream_of(stream).operations.size();
}

void FakeBackend::fail(const std::string& call, Code code, int count) {
  const std::lock_guard lock(mutex_);
  failures_[call] = {code, count};
}

void FakeBackend::fail_late(const std::string& call) {
  const std::lock_guard lock(mutex_);
  late_failures_.insert(call);
}

void FakeBackend::break_down() {
  const std::lock_guard lock(mutex_);
  broken_ = true;
}

int FakeBackend::calls(const std::string& call) const {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

std::vector<FakeBackend::Batch> FakeBackend::batches() const {
  const std::lock_guard lock(mutex_);
  return batches_;
}

int FakeBackend::registered_pages() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(registered_.size());
}

Result<void> FakeBackend::begin(const char* call) {
  base::expect_driver_calls_allowed();
  ++calls_[call];
  const auto found = failures_.find(call);
  if (found == failures_.end() || found->second.second == 0) return {};
  --found->second.second;
  Error error = Error(found->second.first, call).because("the test asked for it");
  // What it refuses it finds by itself; all else it has from a driver.
  const bool refuses = error.code() == Code::invalid_argument || error.code() == Code::wrong_state;
  if (refuses) return error;
  return std::move(error).from(Origin::driver, 999);
}

Result<void> FakeBackend::end(const char* call) {
  if (late_failures_.erase(call) == 0) return {};
  return Error(Code::driver, call).because("the test asked for it").from(Origin::driver, 999);
}

Result<FakeBackend::Stream*> FakeBackend::find(StreamView stream, const char* call) {
  if (stream.is_already_complete()) return static_cast<Stream*>(nullptr);
  for (const auto& [number, candidate] : streams_) {
    if (reinterpret_cast<std::uintptr_t>(candidate.get()) == stream.handle()) {
      return candidate.get();
    }
  }
  return Error(Code::wrong_state, call).because("the stream is not one of this device");
}

void FakeBackend::put(Stream* stream, Operation operation) {
  if (stream == nullptr) {
    VRAMLINK_ASSERT(operation());
  } else {
    stream->operations.push_back(std::move(operation));
  }
}

void FakeBackend::store_all(Stream* stream, std::vector<backend::WordWrite> writes, bool by_copy) {
  for (const backend::WordWrite& write : writes) {
    VRAMLINK_ASSERT(
        registered_.contains(reinterpret_cast<const std::byte*>(write.word.page->words().data())));
    put(stream, [write] {
      at(write.word).store(write.value, std::memory_order_release);
      return true;
    });
  }
  batches_.push_back({std::move(writes), by_copy});
}

Result<void> FakeBackend::order_streams(Stream* earlier, Stream* later) {
  if (earlier == nullptr || later == nullptr || earlier == later) return {};
  const auto reached = std::make_shared<bool>(false);
  put(earlier, [reached] { return *reached = true; });
  put(later, [reached] { return *reached; });
  return {};
}

Result<std::unique_ptr<backend::Memory>> FakeBackend::allocate(std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  VRAMLINK_CHECK(begin("allocate"));
  return host_->allocate(size_bytes);
}

Result<std::unique_ptr<backend::ImportedMemory>> FakeBackend::import_memory(
    os::UniqueFd fd, std::uint64_t size_bytes, os::Access access) {
  const std::lock_guard lock(mutex_);
  VRAMLINK_CHECK(begin("import_memory"));
  return host_->import_memory(std::move(fd), size_bytes, access);
}

Result<std::unique_ptr<backend::RegisteredWords>> FakeBackend::register_words(
    std::span<std::byte> pages) {
  const std::lock_guard lock(mutex_);
  VRAMLINK_CHECK(begin("register_words"));
  return std::unique_ptr<backend::RegisteredWords>(std::make_unique<FakeWords>(*this, pages));
}

Result<void> FakeBackend::signal(StreamView stream, std::span<const backend::WordWrite> writes) {
  const std::lock_guard lock(mutex_);
  VRAMLINK_CHECK(begin("signal"));
  store_all(VRAMLINK_TRY(find(stream, "signal")), {writes.begin(), writes.end()}, false);
  return end("signal");
}

Result<void> FakeBackend::wait(StreamView stream, backend::WordRef word, std::uint64_t value) {
  const std::lock_guard lock(mutex_);
  VRAMLINK_CHECK(begin("wait"));
  Stream* const waiting = VRAMLINK_TRY(find(stream, "wait"));
  if (waiting == nullptr) return Error(Code::wrong_state, "wait").because("it would block");
  put(waiting, [word, value] {
    return static_cast<std::int64_t>(at(word).load(std::memory_order_acquire) - value) >= 0;
  });
  return end("wait");
}

Result<void> FakeBackend::copy(StreamView stream, std::byte* target, const std::byte* source,
                               std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  VRAMLINK_CHECK(begin("copy"));
  put(VRAMLINK_TRY(find(stream, "copy")), [=] {
    std::memcpy(target, source, static_cast<std::size_t>(size_bytes));
    return true;
  });
  return end("copy");
}

Result<void> FakeBackend::order(StreamView earlier, StreamView later) {
  const std::lock_guard lock(mutex_);
  VRAMLINK_CHECK(begin("order"));
  Stream* const first = VRAMLINK_TRY(find(earlier, "order"));
  Stream* const second = VRAMLINK_TRY(find(later, "order"));
  return order_streams(first, second);
}

Result<void> FakeBackend::check_stream(StreamView stream) {
  const std::lock_guard lock(mutex_);
  VRAMLINK_CHECK(begin("check_stream"));
  static_cast<void>(VRAMLINK_TRY(find(stream, "check_stream")));
  return {};
}

Result<std::unique_ptr<backend::CopyQueue>> FakeBackend::make_copy_queue() {
  const std::lock_guard lock(mutex_);
  VRAMLINK_CHECK(begin("make_copy_queue"));
  return std::unique_ptr<backend::CopyQueue>(std::make_unique<FakeCopyQueue>(*this));
}

Result<void> FakeBackend::check_health() {
  const std::lock_guard lock(mutex_);
  VRAMLINK_CHECK(begin("check_health"));
  if (!broken_) return {};
  return Error(Code::driver, "check health").because("the device has failed");
}

}  // namespace vramlink::test
