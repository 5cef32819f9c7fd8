// Host memory: one sealed memfd an allocation, mapped by everyone; fences are release stores.
#include <cstring>
#include <utility>
#include <vector>

#include "backend/host/factory.hpp"
#include "base/driver_calls.hpp"
#include "base/try.hpp"

namespace vramlink::host {
namespace {

class HostMemory final : public backend::Memory {
 public:
  HostMemory(os::SharedSegment segment, os::Mapping mapping) noexcept
      : segment_(std::move(segment)), mapping_(std::move(mapping)) {}
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory() override { base::expect_driver_calls_allowed(); }
  [[nodiscard]] std::byte* data() const noexcept override { return mapping_.data(); }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept override { return segment_.size_bytes(); }
  [[nodiscard]] Result<os::UniqueFd> export_memory() const override {
    return os::duplicate(segment_.fd());
  }

 private:
  os::SharedSegment segment_;
  os::Mapping mapping_;
};

class HostImport final : public backend::ImportedMemory {
 public:
  explicit HostImport(os::Mapping mapping) noexcept : mapping_(std::move(mapping)) {}
  HostImport(const HostImport&) = delete;
  HostImport& operator=(const HostImport&) = delete;
  ~HostImport() override { base::expect_driver_calls_allowed(); }
  [[nodiscard]] std::byte* data() const noexcept override { return mapping_.data(); }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept override { return mapping_.size_bytes(); }

 private:
  os::Mapping mapping_;  // keeps the memory; the fd is not needed any more
};

/// The CPU needs no registration.
class HostWords final : public backend::RegisteredWords {
 public:
  explicit HostWords(std::span<std::byte> pages) noexcept
      : words_(reinterpret_cast<std::atomic<std::uint64_t>*>(pages.data()), pages.size() / 8) {}
  HostWords(const HostWords&) = delete;
  HostWords& operator=(const HostWords&) = delete;
  ~HostWords() override { base::expect_driver_calls_allowed(); }
  [[nodiscard]] std::span<std::atomic<std::uint64_t>> words() const noexcept override {
    return words_;
  }

 private:
  std::span<std::atomic<std::uint64_t>> words_;
};

void store(backend::WordRef word, std::uint64_t value) noexcept {
  // Pairs with a reader's acquire.
  static_cast<const HostWords*>(word.page)->words()[word.index].store(value,
                                                                      std::memory_order_release);
}

Result<void> require_host(StreamView stream, const char* operation) {
  base::expect_driver_calls_allowed();
  if (stream.is_already_complete()) return {};
  return Error(Code::wrong_state, operation)
      .about("host memory")
      .because("a device stream was passed, and host memory has none")
      .remedy("pass StreamView::already_complete() after synchronising");
}

struct HostCopy final : backend::SlotCopy {
  HostCopy(std::byte* to, std::uint64_t bytes, std::span<const backend::WordRef> refs)
      : target(to), size_bytes(bytes), words(refs.begin(), refs.end()) {}
  std::byte* const target;
  const std::uint64_t size_bytes;
  const std::vector<backend::WordRef> words;
};

/// Copies at once, in the caller's thread.
class HostCopyQueue final : public backend::CopyQueue {
 public:
  [[nodiscard]] StreamView stream() const noexcept override {
    return StreamView::already_complete();
  }
  [[nodiscard]] Result<std::unique_ptr<backend::SlotCopy>> prepare(
      std::byte* target, std::uint64_t size_bytes,
      std::span<const backend::WordRef> words) override {
    return std::unique_ptr<backend::SlotCopy>(
        std::make_unique<HostCopy>(target, size_bytes, words));
  }
  [[nodiscard]] Result<void> submit(backend::SlotCopy& copy, StreamView source_stream,
                                    const std::byte* source,
                                    std::span<const std::uint64_t> values) override {
    VRAMLINK_CHECK(require_host(source_stream, "copy"));
    const auto& prepared = static_cast<const HostCopy&>(copy);
    std::memcpy(prepared.target, source, static_cast<std::size_t>(prepared.size_bytes));
    for (std::size_t i = 0; i < prepared.words.size(); ++i) store(prepared.words[i], values[i]);
    return {};
  }
  [[nodiscard]] Result<void> submit_once(StreamView source_stream, std::byte* target,
                                         const std::byte* source, std::uint64_t size_bytes,
                                         std::span<const backend::WordWrite> writes) override {
    VRAMLINK_CHECK(require_host(source_stream, "copy"));
    std::memcpy(target, source, static_cast<std::size_t>(size_bytes));
    for (const backend::WordWrite& write : writes) store(write.word, write.value);
    return {};
  }
};

class HostBackend final : public backend::Backend {
 public:
  [[nodiscard]] DeviceId device() const noexcept override { return DeviceId::host(); }
  [[nodiscard]] const backend::Capabilities& capabilities() const noexcept override {
    return capabilities_;
  }

  [[nodiscard]] Result<std::unique_ptr<backend::Memory>> allocate(
      std::uint64_t size_bytes) override {
    base::expect_driver_calls_allowed();
    os::SharedSegment segment =
        VRAMLINK_TRY(os::SharedSegment::create("vramlink-payload", size_bytes));
    os::Mapping mapping = VRAMLINK_TRY(segment.map(os::Access::read_write, os::Inherit::yes));
    // FUTURE_WRITE comes after our own mapping: we write on, importers can only read.
    VRAMLINK_CHECK(segment.add_seals(os::kFullSeals));
    return std::unique_ptr<backend::Memory>(
        std::make_unique<HostMemory>(std::move(segment), std::move(mapping)));
  }

  [[nodiscard]] Result<std::unique_ptr<backend::ImportedMemory>> import_memory(
      os::UniqueFd fd, std::uint64_t size_bytes, os::Access access) override {
    base::expect_driver_calls_allowed();
    const os::SharedSegment segment = VRAMLINK_TRY(os::SharedSegment::adopt(
        std::move(fd), size_bytes, backend::kMemoryBytesMax, os::kFullSeals));
    os::Mapping mapping = VRAMLINK_TRY(segment.map(access, os::Inherit::yes));
    return std::unique_ptr<backend::ImportedMemory>(
        std::make_unique<HostImport>(std::move(mapping)));
  }

  [[nodiscard]] Result<std::unique_ptr<backend::RegisteredWords>> register_words(
      std::span<std::byte> pages) override {
    base::expect_driver_calls_allowed();
    return std::unique_ptr<backend::RegisteredWords>(std::make_unique<HostWords>(pages));
  }

  [[nodiscard]] Result<void> signal(StreamView stream,
                                    std::span<const backend::WordWrite> writes) override {
    VRAMLINK_CHECK(require_host(stream, "signal"));
    for (const backend::WordWrite& write : writes) store(write.word, write.value);
    return {};
  }

  [[nodiscard]] Result<void> wait(StreamView stream, backend::WordRef, std::uint64_t) override {
    VRAMLINK_CHECK(require_host(stream, "wait"));
    return Error(Code::wrong_state, "wait")
        .about("host memory")
        .because("without a device stream the wait would block the caller")
        .remedy("wait on the CPU, with a deadline");
  }

  [[nodiscard]] Result<void> copy(StreamView stream, std::byte* target, const std::byte* source,
                                  std::uint64_t size_bytes) override {
    VRAMLINK_CHECK(require_host(stream, "copy"));
    std::memcpy(target, source, static_cast<std::size_t>(size_bytes));
    return {};
  }

  [[nodiscard]] Result<void> order(StreamView earlier, StreamView later) override {
    VRAMLINK_CHECK(require_host(earlier, "order"));
    return require_host(later, "order");
  }

  [[nodiscard]] Result<void> check_stream(StreamView stream) override {
    return require_host(stream, "check stream");
  }

  [[nodiscard]] Result<std::unique_ptr<backend::CopyQueue>> make_copy_queue() override {
    return std::unique_ptr<backend::CopyQueue>(std::make_unique<HostCopyQueue>());
  }

  [[nodiscard]] Result<void> check_health() override {
    base::expect_driver_calls_allowed();
    return {};
  }

 private:
  backend::Capabilities capabilities_{
      .memory_kind = wire::MemoryKind::memfd, .cpu_access = true, .inode_is_identity = true};
};

}  // namespace

std::unique_ptr<backend::Backend> create() { return std::make_unique<HostBackend>(); }

}  // namespace vramlink::host
