// See staging.hpp.
#include "backend/cuda/staging.hpp"

#include <cstring>

#include "base/checked.hpp"
#include "base/try.hpp"

namespace vramlink::cuda {
namespace {
constexpr std::uint64_t kUnitBytes = std::uint64_t{1} << 16;
/// As many as a channel has slots: more cannot be under way.
constexpr std::size_t kBufferCountMax = 64;
}  // namespace

StagingBuffer* StagingPool::find_idle(std::uint64_t size_bytes) {
  const Driver& driver = device_->driver();
  const std::lock_guard lock(mutex_);
  for (const auto& buffer : buffers_) {
    if (buffer->pages.size_bytes() < size_bytes || !buffer->is_idle(driver)) continue;
    buffer->taken = true;
    return buffer.get();
  }
  return nullptr;
}

// Before one is made: what is registered and not used would be unregistered in a caller's thread.
Result<void> StagingPool::check_count() {
  const std::lock_guard lock(mutex_);
  if (buffers_.size() < kBufferCountMax) return {};
  return Error(Code::resource_exhausted, "stage copy")
      .because("64 copies of host memory are under way")
      .remedy("register the host memory, or wait for earlier copies");
}

Result<std::unique_ptr<StagingBuffer>> StagingPool::make(std::uint64_t size_bytes) {
  const auto rounded = base::checked_round_up(size_bytes, kUnitBytes);
  if (!rounded) return Error(Code::out_of_memory, "stage copy");
  auto made = std::make_unique<StagingBuffer>();
  const os::SharedSegment segment =
      VRAMLINK_TRY(os::SharedSegment::create("vramlink-staging", *rounded));
  made->pages = VRAMLINK_TRY(segment.map(os::Access::read_write));
  made->done = VRAMLINK_TRY(make_event(*device_->context()));
  // Last, as above.
  made->registration =
      VRAMLINK_TRY(CudaWords::make(device_->registrations(), device_->context(),
                                   {made->pages.data(), made->pages.size_bytes()}));
  return made;
}

Result<StagingBuffer*> StagingPool::fill(const std::byte* source, std::uint64_t size_bytes) {
  StagingBuffer* buffer = find_idle(size_bytes);
  if (buffer == nullptr) {
    VRAMLINK_CHECK(check_count());
    std::unique_ptr<StagingBuffer> fresh = device_->staging_stock().take(size_bytes);
    if (!fresh) fresh = VRAMLINK_TRY(make(size_bytes));
    fresh->taken = true;
    const std::lock_guard lock(mutex_);
    buffer = buffers_.emplace_back(std::move(fresh)).get();
  }
  std::memcpy(buffer->pages.data(), source, static_cast<std::size_t>(size_bytes));
  return buffer;
}

Result<void> StagingPool::give_back(StagingBuffer* buffer, api::Stream stream) {
  const Driver& driver = device_->driver();
  const api::Status status = driver.event_record(buffer->done.get().value, stream);
  const std::lock_guard lock(mutex_);
  // Else the event says nothing about this copy: the buffer is not used again.
  buffer->taken = status != api::Status::success;
  return driver.check("cuEventRecord", status);
}

void StagingPool::end(api::Stream stream) noexcept {
  const ContextScope scope(*device_->context());
  for (const auto& buffer : buffers_) {
    if (buffer->taken && scope) static_cast<void>(give_back(buffer.get(), stream));
  }
  device_->staging_stock().put(std::move(buffers_));
}

}  // namespace vramlink::cuda
