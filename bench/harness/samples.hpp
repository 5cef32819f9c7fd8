// Measured times and what is said of them: n, p50, p99, p99.9, max; never a mean alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace vramlink::bench {

/// Nanoseconds, one a sample. A value.
class Samples {
 public:
  void reserve(std::size_t count) { values_ns_.reserve(count); }
  void add(std::int64_t value_ns) { values_ns_.push_back(value_ns); }
  void add_all(const Samples& other) {
    values_ns_.insert(values_ns_.end(), other.values_ns_.begin(), other.values_ns_.end());
  }
  [[nodiscard]] std::size_t count() const noexcept { return values_ns_.size(); }
  [[nodiscard]] const std::vector<std::int64_t>& values() const noexcept { return values_ns_; }

  /// The smallest sample that at least `fraction` of all do not exceed; 0 without samples.
  [[nodiscard]] std::int64_t percentile(double fraction) const {
    if (values_ns_.empty()) return 0;
    std::vector<std::int64_t> sorted = values_ns_;
    const auto last = static_cast<double>(sorted.size() - 1);
    const auto place = sorted.begin() + static_cast<std::ptrdiff_t>(last * fraction);
    std::nth_element(sorted.begin(), place, sorted.end());
    return *place;
  }

 private:
  std::vector<std::int64_t> values_ns_;
};

}  // namespace vramlink::bench
