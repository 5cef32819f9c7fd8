// Registered host memory that outlives the copy queue which made it.
//
// | handle        | closed by                          | depends on                           |
// |---------------|------------------------------------|--------------------------------------|
// | StagingBuffer | a StagingPool that could not make  | the context, held by its             |
// |               | it; the StagingStock               | registration                         |
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/cuda/context.hpp"
#include "backend/cuda/words.hpp"
#include "os/shared_segment.hpp"

namespace vramlink::cuda {

struct StagingBuffer {
  os::Mapping pages;
  EventHandle done;    ///< of the last copy out of it
  bool taken = false;  ///< being filled, or nobody can say when the copy out of it is complete
  std::unique_ptr<backend::RegisteredWords> registration;

  /// The copy out of it is complete. The context is current.
  [[nodiscard]] bool is_idle(const Driver& driver) const noexcept {
    return !taken && driver.event_query(done.get().value) == api::Status::success;
  }
};

/// The buffers of copy queues that have ended, for those that come: a channel makes a queue with
/// every resize, and to unregister pages holds up all that the process submits. A bounded number is
/// kept as long as the device is open. Thread-safe.
class StagingStock {
 public:
  static constexpr std::uint64_t kKeptBytesMax = std::uint64_t{256} << 20;
  static constexpr std::size_t kKeptCountMax = 64;
  /// However large they are: one is filled while the copy out of another runs.
  static constexpr std::size_t kKeptCountMin = 2;

  explicit StagingStock(const PrimaryContext& context) noexcept : context_(context) {}
  StagingStock(const StagingStock&) = delete;
  StagingStock& operator=(const StagingStock&) = delete;

  /// The smallest that is idle and holds so many bytes; null if there is none. The context is
  /// current.
  [[nodiscard]] std::unique_ptr<StagingBuffer> take(std::uint64_t size_bytes);
  /// Of a queue that ends, on the janitor: what is too many by now is unregistered here, the oldest
  /// first, but none out of which a copy runs.
  void put(std::vector<std::unique_ptr<StagingBuffer>> buffers) noexcept;
  /// Gives up all of them: they are never unregistered. For a context whose work does not end.
  void leak() noexcept;

 private:
  const PrimaryContext& context_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<StagingBuffer>> buffers_;  ///< in the order in which they came
};

}  // namespace vramlink::cuda
