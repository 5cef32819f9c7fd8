// os: the page that fork() wipes.
#include "os/fork_guard.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <new>

#include "os/errno.hpp"

namespace vramlink::os {
namespace detail {
namespace {
constinit const std::atomic<std::uint8_t> kUnarmedByte{1};
}  // namespace
constinit std::atomic<const std::atomic<std::uint8_t>*> fork_guard_byte{&kUnarmedByte};
}  // namespace detail

namespace {

using GuardByte = std::atomic<std::uint8_t>;

bool is_armed() noexcept {
  // Pairs with the exchange in arm_fork_guard().
  return detail::fork_guard_byte.load(std::memory_order_acquire) != &detail::kUnarmedByte;
}

/// A page whose first byte is 1 here and 0 in a forked child; null if there is no memory.
GuardByte* map_guard_page(std::size_t page_bytes, bool& wiped_by_kernel) noexcept {
  void* page =
      ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  wiped_by_kernel = ::madvise(page, page_bytes, MADV_WIPEONFORK) == 0;
  return new (page) GuardByte(1);
}

void wipe_in_child() noexcept {
  // The handler runs while the child has this one thread, so nothing can come in between.
  auto* byte = const_cast<GuardByte*>(detail::fork_guard_byte.load(std::memory_order_acquire));
  if (is_armed()) byte->store(0, std::memory_order_relaxed);
}

}  // namespace

Result<void> arm_fork_guard() {
  if (is_armed()) return {};
  // No lock and no function-local static: a fork in the middle of either would leave it locked in
  // the child for ever.
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  bool wiped_by_kernel = false;
  GuardByte* byte = map_guard_page(page_bytes, wiped_by_kernel);
  if (byte == nullptr) return from_errno("mmap");
  // Kernels before 4.14 and some emulators do not wipe.
  if (!wiped_by_kernel) {
    if (const int failure = ::pthread_atfork(nullptr, nullptr, wipe_in_child); failure != 0) {
      ::munmap(byte, page_bytes);
      return from_errno("pthread_atfork", failure);
    }
  }
  const GuardByte* expected = &detail::kUnarmedByte;
  // Pairs with the loads in in_forked_child() and is_armed(): who sees the page sees its 1.
  if (!detail::fork_guard_byte.compare_exchange_strong(expected, byte, std::memory_order_acq_rel)) {
    ::munmap(byte, page_bytes);  // another thread was faster
  }
  return {};
}

Result<void> require_not_forked(const char* operation) {
  if (in_forked_child()) {
    return Error(Code::wrong_state, operation)
        .because("this process is a forked child of one that used vramlink")
        .remedy("start another program with exec and open a new Runtime there");
  }
  return arm_fork_guard();
}

void become_own_process() noexcept {
  if (!is_armed()) return;
  // The byte lies in a page of our own that is writable; only its readers see it as constant.
  auto* byte = const_cast<GuardByte*>(detail::fork_guard_byte.load(std::memory_order_acquire));
  byte->store(1, std::memory_order_relaxed);
}

}  // namespace vramlink::os
