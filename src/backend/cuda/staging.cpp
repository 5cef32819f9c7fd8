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

StagingPool::Buffer* StagingPool::find_idle(std::uint64_t size_bytes) {
  const Driver& driver = device_->driver();
  const std::lock_guard lock(mutex_);
  for (const auto& buffer : buffers_) {
    if (buffer->taken || buffer->pages.size_bytes() < size_bytes) continue;
    if (driver.event_query(buffer->done.get().value) != api::Status::success) continue;
    buffer->taken = true;
    return buffer.get();
  }
  return nullptr;
}

Result<StagingPool::Buffer*> StagingPool::make(std::uint64_t size_bytes) {
  const auto rounded = base::checked_round_up(size_bytes, kUnitBytes);
  if (!rounded) return Error(Code::out_of_memory, "stage copy");
  auto made = std::make_unique<Buffer>();
  const os::SharedSegment segment =
      VRAMLINK_TRY(os::SharedSegment::create("vramlink-staging", *rounded));
  made->pages = VRAMLINK_TRY(segment.map(os::Access::read_write));
  made->registration =
      VRAMLINK_TRY(CudaWords::make(device_->registrations(), device_->context(),
                                   {made->pages.data(), made->pages.size_bytes()}));
  made->done = VRAMLINK_TRY(make_event(*device_->context()));
  made->taken = true;
  const std::lock_guard lock(mutex_);
  if (buffers_.size() >= kBufferCountMax) {
    return Error(Code::resource_exhausted, "stage copy")
        .because("64 copies of host memory are under way")
        .remedy("register the host memory, or wait for earlier copies");
  }
  buffers_.push_back(std::move(made));
  return buffers_.back().get();
}

Result<StagingPool::Buffer*> StagingPool::fill(const std::byte* source, std::uint64_t size_bytes) {
  Buffer* buffer = find_idle(size_bytes);
  if (buffer == nullptr) buffer = VRAMLINK_TRY(make(size_bytes));
  std::memcpy(buffer->pages.data(), source, static_cast<std::size_t>(size_bytes));
  return buffer;
}

Result<void> StagingPool::give_back(Buffer* buffer, api::Stream stream) {
  const Driver& driver = device_->driver();
  const api::Status status = driver.event_record(buffer->done.get().value, stream);
  const std::lock_guard lock(mutex_);
  buffer->taken = false;
  return driver.check("cuEventRecord", status);
}

}  // namespace vramlink::cuda
