// Registered host memory through which ordinary host memory goes to a GPU.
//
// | handle         | closed by           | depends on                                      |
// |----------------|---------------------|-------------------------------------------------|
// | Staging buffer | the StagingPool     | the context, held by its registration           |
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include <vramlink/result.hpp>

#include "backend/cuda/open_device.hpp"
#include "os/shared_segment.hpp"

namespace vramlink::cuda {

/// Buffers of one copy queue, used again when the copy out of them is complete: as many as copies
/// are under way at once. Thread-safe.
class StagingPool {
 public:
  explicit StagingPool(std::shared_ptr<OpenDevice> device) noexcept : device_(std::move(device)) {}

  struct Buffer {
    os::Mapping pages;
    std::unique_ptr<backend::RegisteredWords> registration;
    EventHandle done;    ///< of the last copy out of it
    bool taken = false;  ///< being filled
  };

  /// Copies the bytes into a buffer of ours. The context is current. Codes: out_of_memory,
  /// resource_exhausted, os, driver.
  [[nodiscard]] Result<Buffer*> fill(const std::byte* source, std::uint64_t size_bytes);
  /// The copies out of `buffer` are in `stream` now. Codes: driver.
  [[nodiscard]] Result<void> give_back(Buffer* buffer, api::Stream stream);
  /// All buffers, for who destroys them when the copies out of them are complete.
  [[nodiscard]] std::vector<std::unique_ptr<Buffer>> take_all() noexcept {
    return std::move(buffers_);
  }

 private:
  [[nodiscard]] Buffer* find_idle(std::uint64_t size_bytes);
  [[nodiscard]] Result<Buffer*> make(std::uint64_t size_bytes);

  std::shared_ptr<OpenDevice> device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

}  // namespace vramlink::cuda
