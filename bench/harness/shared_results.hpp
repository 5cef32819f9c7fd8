// Samples that a child took, as its parent reads them. The library does not survive a fork, so each
// set of processes is forked anew, and what it measured comes back through shared memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <vramlink/deadline.hpp>

#include "harness/process.hpp"
#include "harness/samples.hpp"

namespace vramlink::bench {

template <std::size_t kKinds, std::size_t kSamplesMax = 8192>
struct SharedResults {
  std::array<std::atomic<std::uint64_t>, kKinds> count{};
  std::array<std::array<std::atomic<std::int64_t>, kSamplesMax>, kKinds> values_ns{};

  void add(std::size_t kind, std::int64_t value_ns) {
    const std::uint64_t index = count[kind].load(std::memory_order_relaxed);
    if (index >= kSamplesMax) return;
    values_ns[kind][index].store(value_ns, std::memory_order_relaxed);
    count[kind].store(index + 1, std::memory_order_release);
  }
  [[nodiscard]] Samples samples(std::size_t kind) const {
    Samples all;
    const std::uint64_t size = count[kind].load(std::memory_order_acquire);
    for (std::uint64_t i = 0; i < size; ++i) all.add(values_ns[kind][i].load());
    return all;
  }
};

/// The time that `call` takes.
template <class Call>
[[nodiscard]] std::int64_t time_of(Call&& call) {
  const std::int64_t start_ns = monotonic_ns();
  call();
  return monotonic_ns() - start_ns;
}

/// Spins until `done` says so. A GPU that stands still ends the benchmark, not the patience.
template <class Done>
[[nodiscard]] bool spin_until(Done&& done) {
  constexpr std::int64_t kLimitNs = 10'000'000'000;
  const std::int64_t end_ns = monotonic_ns() + kLimitNs;
  while (!done()) {
    if (monotonic_ns() > end_ns) return false;
  }
  return true;
}

}  // namespace vramlink::bench
