// What a program of the loops over driver calls does with the stand-in's GPU by itself. Of all that
// no call is counted or meets a planted fault, so that the loops are about the library's calls; but
// after a sticky error it fails, as everything does, and says so.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <vramlink/device.hpp>
#include <vramlink/stream.hpp>

#include "support/raw_cuda.hpp"
#include "support/stand_in.hpp"

namespace vramlink::test {

/// While it lives, the calls of this thread are the test's own.
class SparedThread {
 public:
  SparedThread() { stand_in()->spare_thread(true); }
  SparedThread(const SparedThread&) = delete;
  SparedThread& operator=(const SparedThread&) = delete;
  ~SparedThread() { stand_in()->spare_thread(false); }
};

/// The primary context of the first GPU, a stream of it and some memory. Outside of the members no
/// context is current, as in most programs. One thread.
class OwnGpu {
 public:
  static constexpr std::size_t kBytesMax = 16384;

  OwnGpu();
  OwnGpu(const OwnGpu&) = delete;
  OwnGpu& operator=(const OwnGpu&) = delete;
  ~OwnGpu();

  [[nodiscard]] const DeviceId& id() const noexcept { return id_; }
  [[nodiscard]] StreamView stream() const noexcept { return StreamView::cuda(stream_); }
  /// Memory of the GPU, for frames that are copied from it.
  [[nodiscard]] std::byte* memory() const noexcept { return memory_; }
  /// Copies the bytes to the GPU in the stream's order. False if the driver refuses.
  [[nodiscard]] bool fill(std::byte* target, std::span<const std::byte> bytes);
  /// What is there once all work in the stream is done; nothing if it cannot be done.
  [[nodiscard]] std::optional<std::vector<std::byte>> read(std::span<const std::byte> source);
  /// Waits for the stream.
  bool finish();

 private:
  class Scope;
  static constexpr std::size_t kPlaces = 16;

  std::shared_ptr<const cuda::Driver> driver_;
  cuda_api::TestFunctions more_;
  DeviceId id_;
  cuda_api::Device device_ = 0;
  cuda_api::Context context_ = nullptr;
  cuda_api::Stream stream_ = nullptr;
  std::byte* memory_ = nullptr;
  std::byte* pinned_ = nullptr;  ///< kPlaces of kBytesMax: a stream may be so far behind
  std::size_t next_place_ = 0;
};

}  // namespace vramlink::test
