// Registered host memory through which ordinary host memory goes to a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <vramlink/result.hpp>

#include "backend/cuda/open_device.hpp"
#include "backend/cuda/staging_stock.hpp"

namespace vramlink::cuda {

/// The buffers of one copy queue, from the device's stock and back to it; used again when the copy
/// out of them is complete: as many as copies are under way at once. Thread-safe.
class StagingPool {
 public:
  explicit StagingPool(std::shared_ptr<OpenDevice> device) noexcept : device_(std::move(device)) {}

  /// Copies the bytes into a buffer of ours. The context is current. Codes: out_of_memory,
  /// resource_exhausted, os, driver.
  [[nodiscard]] Result<StagingBuffer*> fill(const std::byte* source, std::uint64_t size_bytes);
  /// The copies out of `buffer` are in `stream` now. Codes: driver.
  [[nodiscard]] Result<void> give_back(StagingBuffer* buffer, api::Stream stream);
  /// The queue ends, on the janitor, with what is in its stream.
  void end(api::Stream stream) noexcept;

 private:
  [[nodiscard]] StagingBuffer* find_idle(std::uint64_t size_bytes);
  [[nodiscard]] Result<void> check_count();
  [[nodiscard]] Result<std::unique_ptr<StagingBuffer>> make(std::uint64_t size_bytes);

  std::shared_ptr<OpenDevice> device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StagingBuffer>> buffers_;
};

}  // namespace vramlink::cuda
