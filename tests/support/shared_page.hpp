// A page that a test and its children share.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace vramlink::test {

/// 512 words, all 0 at first. To be made before the children.
class SharedPage {
 public:
  static constexpr std::size_t kSizeBytes = 4096;

  SharedPage()
      : words_(static_cast<std::atomic<std::uint64_t>*>(::mmap(
            nullptr, kSizeBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_NE(static_cast<void*>(words_), MAP_FAILED);
  }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  ~SharedPage() { ::munmap(words_, kSizeBytes); }

  [[nodiscard]] std::atomic<std::uint64_t>& operator[](std::size_t index) const {
    return words_[index];
  }
  [[nodiscard]] void* data() const { return words_; }
  /// What begins at a word; a plain struct, which one side writes before it tells the other.
  template <class T>
  [[nodiscard]] T& at(std::size_t index) const {
    return *reinterpret_cast<T*>(words_ + index);
  }
  /// Waits until a word has at least the value; the test's watchdog ends what hangs.
  void see(std::size_t index, std::uint64_t value) const {
    while (words_[index].load() < value) std::this_thread::yield();
  }

 private:
  std::atomic<std::uint64_t>* words_;
};

}  // namespace vramlink::test
