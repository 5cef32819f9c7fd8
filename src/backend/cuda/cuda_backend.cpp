// One GPU behind the seam; the context is made when the first call needs it.
#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include "backend/cuda/copy_queue.hpp"
#include "backend/cuda/factory.hpp"
#include "backend/cuda/handle_memory.hpp"
#include "backend/cuda/memory.hpp"
#include "backend/cuda/open_device.hpp"
#include "backend/cuda/plain_copy.hpp"
#include "backend/cuda/pointer.hpp"
#include "base/driver_calls.hpp"
#include "base/try.hpp"

namespace vramlink::cuda {
namespace {

/// Of a copy that its caller waits for.
constexpr std::chrono::seconds kCopyWait{60};

class CudaBackend final : public backend::Backend {
 public:
  /// `kind`: how its memory goes to other processes.
  CudaBackend(Platform platform, ListedDevice listed, wire::MemoryKind kind)
      : platform_(std::move(platform)),
        listed_(std::move(listed)),
        capabilities_{.memory_kind = kind,
                      .cpu_access = false,
                      .streams = true,
                      .inode_is_identity = kind == wire::MemoryKind::legacy_handle} {}

  [[nodiscard]] DeviceId device() const noexcept override { return listed_.info.id; }
  [[nodiscard]] const backend::Capabilities& capabilities() const noexcept override {
    return capabilities_;
  }

  [[nodiscard]] Result<std::unique_ptr<backend::Memory>> allocate(
      std::uint64_t size_bytes) override {
    OpenDevice* gpu = VRAMLINK_TRY(open());
    return of_work(allocate(*gpu, size_bytes));
  }

  [[nodiscard]] Result<std::unique_ptr<backend::ImportedMemory>> import_memory(
      os::UniqueFd fd, std::uint64_t size_bytes, os::Access access) override {
    OpenDevice* gpu = VRAMLINK_TRY(open());
    const ContextScope scope(*gpu->context());
    VRAMLINK_CHECK(scope.entered());
    gpu->own_work().sweep();
    if (by_handle()) {
      return std::unique_ptr<backend::ImportedMemory>(
          VRAMLINK_TRY(HandleImport::import(device_, std::move(fd), size_bytes)));
    }
    return std::unique_ptr<backend::ImportedMemory>(
        VRAMLINK_TRY(CudaImport::import(device_, std::move(fd), size_bytes, access)));
  }

  [[nodiscard]] Result<std::unique_ptr<backend::RegisteredWords>> register_words(
      std::span<std::byte> pages) override {
    OpenDevice* gpu = VRAMLINK_TRY(open());
    return of_work(register_words(*gpu, pages));
  }

  [[nodiscard]] Result<void> signal(StreamView stream,
                                    std::span<const backend::WordWrite> writes) override {
    base::expect_driver_calls_allowed();
    if (stream.is_already_complete()) {
      for (const backend::WordWrite& write : writes) {
        // Pairs with a reader's acquire.
        write.word.page->words()[write.word.index].store(write.value, std::memory_order_release);
      }
      return {};
    }
    OpenDevice* gpu = VRAMLINK_TRY(open());
    return of_work(signal(*gpu, stream, writes));
  }

  [[nodiscard]] Result<void> wait(StreamView stream, backend::WordRef word,
                                  std::uint64_t value) override {
    if (stream.is_already_complete()) {
      return Error(Code::wrong_state, "wait")
          .about(to_string(device()))
          .because("without a stream the wait would block the caller")
          .remedy("wait on the CPU, with a deadline");
    }
    OpenDevice* gpu = VRAMLINK_TRY(open());
    return of_work(wait(*gpu, stream, word, value));
  }

  [[nodiscard]] Result<void> copy(StreamView stream, std::byte* target, const std::byte* source,
                                  std::uint64_t size_bytes) override {
    OpenDevice* gpu = VRAMLINK_TRY(open());
    return of_work(copy(*gpu, stream, target, source, size_bytes));
  }

  [[nodiscard]] Result<void> order(StreamView earlier, StreamView later) override {
    if (earlier == later && earlier.is_already_complete()) return {};
    OpenDevice* gpu = VRAMLINK_TRY(open());
    return of_work(order(*gpu, earlier, later));
  }

  [[nodiscard]] Result<void> check_stream(StreamView stream) override {
    if (stream.is_already_complete()) return {};
    OpenDevice* gpu = VRAMLINK_TRY(open());
    return of_work(check_stream(*gpu, stream));
  }

  [[nodiscard]] Result<std::unique_ptr<backend::CopyQueue>> make_copy_queue() override {
    OpenDevice* gpu = VRAMLINK_TRY(open());
    return of_work(make_copy_queue(*gpu));
  }

  [[nodiscard]] Result<void> check_health() override {
    const OpenDevice* gpu = opened_.load(std::memory_order_acquire);  // pairs with open()
    if (gpu == nullptr) return {};
    const ContextScope scope(*gpu->context());
    VRAMLINK_CHECK(scope.entered());
    return gpu->check_health();
  }

 private:
  [[nodiscard]] bool by_handle() const noexcept {
    return capabilities_.memory_kind == wire::MemoryKind::legacy_handle;
  }
  // The parts of the above that need the device open.
  [[nodiscard]] Result<std::unique_ptr<backend::Memory>> allocate(OpenDevice& gpu,
                                                                  std::uint64_t size_bytes) {
    const ContextScope scope(*gpu.context());
    VRAMLINK_CHECK(scope.entered());
    gpu.own_work().sweep();
    if (by_handle()) {
      return std::unique_ptr<backend::Memory>(
          VRAMLINK_TRY(HandleMemory::allocate(device_, size_bytes)));
    }
    return std::unique_ptr<backend::Memory>(
        VRAMLINK_TRY(CudaMemory::allocate(device_, size_bytes)));
  }
  [[nodiscard]] static Result<std::unique_ptr<backend::RegisteredWords>> register_words(
      OpenDevice& gpu, std::span<std::byte> pages) {
    return CudaWords::make(gpu.registrations(), gpu.context(), pages);
  }
  [[nodiscard]] static Result<void> signal(OpenDevice& gpu, StreamView stream,
                                           std::span<const backend::WordWrite> writes) {
    const ContextScope scope(*gpu.context());
    VRAMLINK_CHECK(scope.entered());
    const api::Stream raw = VRAMLINK_TRY(gpu.resolve("signal", stream));
    return write_words(gpu, raw, writes);
  }
  [[nodiscard]] static Result<void> wait(OpenDevice& gpu, StreamView stream, backend::WordRef word,
                                         std::uint64_t value) {
    const ContextScope scope(*gpu.context());
    VRAMLINK_CHECK(scope.entered());
    const api::Stream raw = VRAMLINK_TRY(gpu.resolve("wait", stream));
    const Driver& driver = gpu.driver();
    return driver.check(
        "cuStreamWaitValue64",
        driver.stream_wait_value_64(raw, address_of(word), value, api::kWaitGreaterOrEqual));
  }
  [[nodiscard]] static Result<void> copy(OpenDevice& gpu, StreamView stream, std::byte* target,
                                         const std::byte* source, std::uint64_t size_bytes) {
    const ContextScope scope(*gpu.context());
    VRAMLINK_CHECK(scope.entered());
    const bool complete = stream.is_already_complete();
    api::Stream raw = gpu.scratch_stream();
    if (!complete) raw = VRAMLINK_TRY(gpu.resolve("copy", stream));
    const PointerInfo to =
        VRAMLINK_TRY(check_copy_side(gpu, CopySide::target, target, size_bytes, complete));
    const bool across = to.kind == PointerKind::device;
    const PointerInfo from =
        VRAMLINK_TRY(check_copy_side(gpu, CopySide::source, source, size_bytes, complete, across));
    if (!from.reachable) {
      VRAMLINK_CHECK(copy_across(gpu, raw, target, source, from.device, size_bytes));
    } else {
      VRAMLINK_CHECK(copy_bytes(gpu, raw, {target, to.kind}, {source, from.kind}, size_bytes));
    }
    return complete ? gpu.finish(raw, Deadline::after(kCopyWait)) : Result<void>();
  }
  [[nodiscard]] static Result<void> order(OpenDevice& gpu, StreamView earlier, StreamView later) {
    const ContextScope scope(*gpu.context());
    VRAMLINK_CHECK(scope.entered());
    api::Stream before = nullptr;
    api::Stream after = nullptr;
    if (!earlier.is_already_complete()) before = VRAMLINK_TRY(gpu.resolve("order", earlier));
    if (!later.is_already_complete()) after = VRAMLINK_TRY(gpu.resolve("order", later));
    // Nothing is behind what is complete, and who says that it is complete later vouches for it.
    if (earlier.is_already_complete() || later.is_already_complete() || earlier == later) return {};
    return order_streams(gpu, before, after);
  }
  [[nodiscard]] static Result<void> check_stream(OpenDevice& gpu, StreamView stream) {
    const ContextScope scope(*gpu.context());
    VRAMLINK_CHECK(scope.entered());
    static_cast<void>(VRAMLINK_TRY(gpu.resolve("check stream", stream)));
    return {};
  }
  [[nodiscard]] Result<std::unique_ptr<backend::CopyQueue>> make_copy_queue(OpenDevice& gpu) {
    const ContextScope scope(*gpu.context());
    VRAMLINK_CHECK(scope.entered());
    gpu.own_work().sweep();
    return CudaCopyQueue::make(device_);
  }

  /// A failure is not remembered: memory may be there another time.
  [[nodiscard]] Result<OpenDevice*> open() {
    // Pairs with the store below.
    if (OpenDevice* gpu = opened_.load(std::memory_order_acquire)) [[likely]] {
      return gpu;
    }
    const std::lock_guard lock(mutex_);
    if (!device_) {
      device_ = VRAMLINK_TRY(OpenDevice::open(platform_, listed_, capabilities_.memory_kind));
    }
    opened_.store(device_.get(), std::memory_order_release);
    return device_.get();
  }

  const Platform platform_;
  const ListedDevice listed_;
  const backend::Capabilities capabilities_;
  std::mutex mutex_;
  std::shared_ptr<OpenDevice> device_;
  std::atomic<OpenDevice*> opened_{nullptr};
};

}  // namespace

std::string library_name() { return Driver::library_name(); }

Result<MemoryInfo> inspect_memory(const std::byte* address) {
  return inspect(*VRAMLINK_TRY(Driver::load()), address);
}

Result<Found> find_devices() {
  Platform platform;
  platform.driver = VRAMLINK_TRY(Driver::load());
  std::vector<ListedDevice> all = VRAMLINK_TRY(list_devices(*platform.driver));
  Found found;
  found.driver_version = static_cast<std::uint32_t>(platform.driver->version());
  for (const ListedDevice& listed : all) {
    found.devices.push_back(listed.info);
    using wire::MemoryKind;
    if (listed.info.usable) {
      found.backends.push_back(std::make_unique<CudaBackend>(platform, listed, MemoryKind::device));
    }
    if (listed.shares_handles) {
      found.legacy_backends.push_back(
          std::make_unique<CudaBackend>(platform, listed, MemoryKind::legacy_handle));
    }
  }
  return found;
}

}  // namespace vramlink::cuda
