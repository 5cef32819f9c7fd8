// Host pages that streams write and wait for.
//
// | handle    | closed by              | depends on                                              |
// |-----------|------------------------|---------------------------------------------------------|
// | CudaWords | cuMemHostUnregister,   | the Registrations and the context, both of which it     |
// |           | when it is the last of | holds; and the mapping, which must outlive it           |
// |           | the same pages         |                                                         |
#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "backend/backend.hpp"
#include "backend/cuda/context.hpp"

namespace vramlink::cuda {

/// All registrations of this process. The driver refuses to register pages twice, while a publisher
/// and a subscriber of one process, or two GPUs, use the same ones. Thread-safe.
class Registrations {
 public:
  /// Registers the pages for all contexts, or counts one user more. Codes: driver,
  /// resource_exhausted, out_of_memory, wrong_state (they overlap other registered pages).
  [[nodiscard]] Result<void> add(const std::shared_ptr<const PrimaryContext>& context,
                                 std::span<std::byte> pages);
  /// Blocks, if this was the last user, while any stream of the context waits or works.
  void remove(std::span<std::byte> pages) noexcept;

 private:
  struct Entry {
    std::size_t size_bytes = 0;
    std::size_t users = 0;
    bool changing = true;  ///< the driver is being called for it, without the mutex
    std::shared_ptr<const PrimaryContext> context;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::byte*, Entry> entries_;
};

class CudaWords final : public backend::RegisteredWords {
 public:
  /// Codes: as Registrations::add.
  [[nodiscard]] static Result<std::unique_ptr<backend::RegisteredWords>> make(
      std::shared_ptr<Registrations> registrations, std::shared_ptr<const PrimaryContext> context,
      std::span<std::byte> pages);
  ~CudaWords() override;
  CudaWords(const CudaWords&) = delete;
  CudaWords& operator=(const CudaWords&) = delete;

  [[nodiscard]] std::span<std::atomic<std::uint64_t>> words() const noexcept override {
    return {reinterpret_cast<std::atomic<std::uint64_t>*>(pages_.data()), pages_.size() / 8};
  }
  [[nodiscard]] api::DevicePointer address(std::uint32_t index) const noexcept {
    return address_ + std::uint64_t{8} * index;
  }

 private:
  CudaWords(std::shared_ptr<Registrations> registrations,
            std::shared_ptr<const PrimaryContext> context, std::span<std::byte> pages) noexcept
      : registrations_(std::move(registrations)), context_(std::move(context)), pages_(pages) {}

  std::shared_ptr<Registrations> registrations_;
  std::shared_ptr<const PrimaryContext> context_;
  std::span<std::byte> pages_;
  api::DevicePointer address_ = 0;
};

/// The words of a page that this back end registered.
[[nodiscard]] inline const CudaWords& words_of(const backend::WordRef& word) noexcept {
  return static_cast<const CudaWords&>(*word.page);
}
[[nodiscard]] inline api::DevicePointer address_of(const backend::WordRef& word) noexcept {
  return words_of(word).address(word.index);
}

}  // namespace vramlink::cuda
