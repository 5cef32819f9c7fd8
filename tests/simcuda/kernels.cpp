// The kernels. They run in the device process: no libc, no waiting; see device_state.hpp.
#include "modules.hpp"
#include "sys.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::uint64_t kWordsEachStep = 4096;

template <class T>
T argument(const KernelCall& call, std::size_t offset) noexcept {
  return *reinterpret_cast<const T*>(call.arguments.data() + offset);
}

/// vramlink_fill(u32* target, u32 value, u64 count): stores `value` to `count` words.
bool fill(KernelCall& call) noexcept {
  const auto target = argument<std::uint64_t>(call, 0);
  const auto value = argument<std::uint32_t>(call, 8);
  const auto count = argument<std::uint64_t>(call, 16);
  const std::uint64_t left = count - call.progress;
  const std::uint64_t now = left < kWordsEachStep ? left : kWordsEachStep;
  if (now == 0) return true;
  std::byte* at = device_access(call, target + call.progress * 4, now * 4, true);
  if (at == nullptr) return true;
  for (std::uint64_t i = 0; i < now; ++i) {
    *reinterpret_cast<volatile std::uint32_t*>(at + i * 4) = value;
  }
  call.progress += now;
  return call.progress == count;
}

/// vramlink_sum(u64* result, const u32* source, u64 count): the sum of `count` words.
bool sum(KernelCall& call) noexcept {
  const auto result = argument<std::uint64_t>(call, 0);
  const auto source = argument<std::uint64_t>(call, 8);
  const auto count = argument<std::uint64_t>(call, 16);
  std::byte* total = device_access(call, result, 8, true);
  const std::byte* at = device_access(call, source, count * 4, false);
  if (total == nullptr || at == nullptr) return true;
  std::uint64_t value = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    value += *reinterpret_cast<const volatile std::uint32_t*>(at + i * 4);
  }
  *reinterpret_cast<volatile std::uint64_t*>(total) = value;
  return true;
}

/// vramlink_spin_until(const u64* word, u64 value): runs until the word has at least the value.
bool spin_until(KernelCall& call) noexcept {
  const std::byte* word = device_access(call, argument<std::uint64_t>(call, 0), 8, false);
  if (word == nullptr) return true;
  return reinterpret_cast<const std::atomic<std::uint64_t>*>(word)->load() >=
         argument<std::uint64_t>(call, 8);
}

/// vramlink_run_for(u64 ns): runs for that long.
bool run_for(KernelCall& call) noexcept {
  const std::uint64_t now_ns = sys::now_ns();
  if (call.progress == 0) call.progress = now_ns;
  return now_ns - call.progress >= argument<std::uint64_t>(call, 0);
}

constexpr std::array<std::uint8_t, 3> kFillArguments{8, 4, 8};
constexpr std::array<std::uint8_t, 3> kSumArguments{8, 8, 8};
constexpr std::array<std::uint8_t, 2> kSpinUntilArguments{8, 8};
constexpr std::array<std::uint8_t, 1> kRunForArguments{8};

constexpr std::array kKernels{
    Kernel{"vramlink_fill", fill, kFillArguments},
    Kernel{"vramlink_sum", sum, kSumArguments},
    Kernel{"vramlink_spin_until", spin_until, kSpinUntilArguments},
    Kernel{"vramlink_run_for", run_for, kRunForArguments},
};

}  // namespace

std::span<const Kernel> all_kernels() noexcept { return kKernels; }

}  // namespace vramlink::simcuda
