// What the tests of the CUDA back end alone share: a back end, a registered page, a raw driver.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cuda/factory.hpp"
#include "os/shared_segment.hpp"
#include "support/leak_check.hpp"
#include "support/raw_cuda.hpp"

namespace vramlink::test {

/// A page of words, registered with `backend`.
class WordPage {
 public:
  explicit WordPage(backend::Backend& backend)
      : mapping_(
            os::SharedSegment::create("words", 4096).value().map(os::Access::read_write).value()),
        registered_(backend.register_words({mapping_.data(), mapping_.size_bytes()}).value()) {}
  /// A wait that a failed test left behind would block the unregistering for ever.
  ~WordPage() {
    for (auto& word : registered_->words()) word.store(kFarAhead);
  }
  WordPage(const WordPage&) = delete;
  WordPage& operator=(const WordPage&) = delete;

  static constexpr std::uint64_t kFarAhead = std::uint64_t{1} << 40;

  [[nodiscard]] backend::WordRef ref(std::uint32_t index) const {
    return {registered_.get(), index};
  }
  [[nodiscard]] std::atomic<std::uint64_t>& operator[](std::size_t index) const {
    return registered_->words()[index];
  }
  [[nodiscard]] std::span<std::byte> pages() const {
    return {mapping_.data(), mapping_.size_bytes()};
  }
  /// Waits until the word has the value.
  void see(std::size_t index, std::uint64_t value) const {
    while ((*this)[index].load(std::memory_order_acquire) != value) std::this_thread::yield();
  }

 private:
  os::Mapping mapping_;
  std::unique_ptr<backend::RegisteredWords> registered_;
};

class CudaBackend : public LeakCheck {
 public:
  static void SetUpTestSuite() { static_cast<void>(RawCuda::get()); }

 protected:
  static constexpr std::uint64_t kBytes = 8192;

  void SetUp() override { static_cast<void>(RawCuda::require()); }
  static std::unique_ptr<backend::Backend> make_backend(std::size_t index = 0) {
    if (RawCuda::get() == nullptr) return nullptr;
    return std::move(cuda::find_devices().value().backends.at(index));
  }
  static RawCuda& raw() { return *RawCuda::get(); }
  static std::vector<std::byte> bytes_of(int first) {
    return std::vector<std::byte>(kBytes, static_cast<std::byte>(first));
  }
  /// Memory of the back end that holds bytes_of(first).
  std::unique_ptr<backend::Memory> filled(int first) {
    auto memory = backend_->allocate(kBytes).value();
    raw().write(memory->data(), bytes_of(first));
    return memory;
  }
  /// Whether the error has the code, and says `words`.
  template <class T>
  static ::testing::AssertionResult refused(const Result<T>& result, Code code, const char* words) {
    if (result) return ::testing::AssertionFailure() << "it succeeded";
    const std::string text = to_string(result.error());
    if (result.failed_with(code) && text.find(words) != std::string::npos) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << text;
  }

  std::unique_ptr<backend::Backend> backend_ = make_backend();
};

}  // namespace vramlink::test
