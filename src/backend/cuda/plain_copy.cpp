// See plain_copy.hpp.
#include "backend/cuda/plain_copy.hpp"

#include <algorithm>
#include <array>

#include "base/try.hpp"

namespace vramlink::cuda {
namespace {

/// More than any frame needs: one word, and one for each stream-ordered subscriber.
constexpr std::size_t kBatchMax = 32;

bool on_device(CopyEnd end) noexcept { return end.kind == PointerKind::device; }

}  // namespace

Result<void> copy_bytes(const OpenDevice& device, api::Stream stream, CopyEnd target,
                        CopyEnd source, std::uint64_t size_bytes) {
  const Driver& driver = device.driver();
  const api::DevicePointer to = device_pointer(target.address);
  const api::DevicePointer from = device_pointer(source.address);
  // The call that names both ends refuses an address that has become something else, where the
  // general one would take freed GPU memory for host memory.
  if (on_device(target) && on_device(source)) {
    return driver.check("cuMemcpyDtoDAsync",
                        driver.memcpy_dtod_async(to, from, size_bytes, stream));
  }
  if (on_device(target)) {
    return driver.check("cuMemcpyHtoDAsync",
                        driver.memcpy_htod_async(to, source.address, size_bytes, stream));
  }
  if (on_device(source)) {
    return driver.check(
        "cuMemcpyDtoHAsync",
        driver.memcpy_dtoh_async(const_cast<std::byte*>(target.address), from, size_bytes, stream));
  }
  return driver.check("cuMemcpyAsync", driver.memcpy_async(to, from, size_bytes, stream));
}

Result<void> copy_across(OpenDevice& device, api::Stream stream, std::byte* target,
                         const std::byte* source, int source_ordinal, std::uint64_t size_bytes) {
  const Driver& driver = device.driver();
  const api::Context owner = VRAMLINK_TRY(device.context_of(source_ordinal));
  return driver.check("cuMemcpyPeerAsync",
                      driver.memcpy_peer_async(device_pointer(target), device.context()->get(),
                                               device_pointer(source), owner, size_bytes, stream));
}

Result<void> write_words(const OpenDevice& device, api::Stream stream,
                         std::span<const backend::WordWrite> writes) {
  const Driver& driver = device.driver();
  if (writes.size() == 1) {
    return driver.check("cuStreamWriteValue64",
                        driver.stream_write_value_64(stream, address_of(writes[0].word),
                                                     writes[0].value, api::kWriteDefault));
  }
  std::array<api::MemOp, kBatchMax> batch;
  while (!writes.empty()) {
    const std::size_t count = std::min(writes.size(), batch.size());
    for (std::size_t i = 0; i < count; ++i) {
      batch[i] = {api::MemOpType::write_value_64,
                  address_of(writes[i].word),
                  writes[i].value,
                  api::kWriteDefault,
                  0,
                  0};
    }
    VRAMLINK_CHECK(driver.check(
        "cuStreamBatchMemOp",
        driver.stream_batch_mem_op(stream, static_cast<unsigned>(count), batch.data(), 0)));
    writes = writes.subspan(count);
  }
  return {};
}

Result<void> order_streams(OpenDevice& device, api::Stream earlier, api::Stream later) {
  const Driver& driver = device.driver();
  const EventPool::Lease event = VRAMLINK_TRY(device.events().take());
  VRAMLINK_CHECK(driver.check("cuEventRecord", driver.event_record(event.get(), earlier)));
  return driver.check("cuStreamWaitEvent", driver.stream_wait_event(later, event.get(), 0));
}

}  // namespace vramlink::cuda
