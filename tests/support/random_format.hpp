// Formats for property tests: valid ones from the factories, and changed ones.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include <vramlink/format.hpp>

#include "base/format_table.hpp"

namespace vramlink::test {

using Random = std::mt19937_64;

inline std::uint64_t pick(Random& random, std::uint64_t least, std::uint64_t most) {
  return std::uniform_int_distribution<std::uint64_t>(least, most)(random);
}

inline Format random_image(Random& random) {
  const auto rows = base::pixel_table();
  const auto& row = rows[pick(random, 0, rows.size() - 1)];
  return Format::image(row.pixel_format, pick(random, 1, 5000), pick(random, 1, 5000),
                       std::uint64_t{1} << pick(random, 0, 9))
      .value();
}

inline Format random_tensor(Random& random) {
  const auto rows = base::dtype_table();
  std::vector<std::uint64_t> shape(pick(random, 0, kRankMax));
  for (auto& size : shape) size = pick(random, 1, 30);
  return Format::tensor(rows[pick(random, 0, rows.size() - 1)].dtype, shape).value();
}

inline Format random_format(Random& random) {
  Format format = pick(random, 0, 1) == 0 ? random_image(random) : random_tensor(random);
  format.color_matrix = static_cast<ColorMatrix>(pick(random, 0, 4));
  format.color_range = static_cast<ColorRange>(pick(random, 0, 2));
  format.row_order = static_cast<RowOrder>(pick(random, 0, 1));
  format.rate_numerator = static_cast<std::uint32_t>(pick(random, 0, 240));
  format.rate_denominator = static_cast<std::uint32_t>(pick(random, 1, 1001));
  return format;
}

}  // namespace vramlink::test
