// What a valid format promises, computed in 128 bits and without the library's own arithmetic.
#pragma once

#include <vramlink/format.hpp>

#include "fuzz/expect.hpp"

namespace vramlink::test {

inline void expect_inside_payload(const Format& format) {
  __extension__ using Wide = unsigned __int128;
  const Wide payload = format.payload_bytes;
  expect(format.rank <= kRankMax && format.plane_count <= kPlaneCountMax);
  Wide last_element = 0;
  for (std::size_t i = 0; i < format.rank; ++i) {
    expect(format.shape[i] >= 1 && format.strides[i] >= 0);
    last_element += Wide{format.shape[i] - 1} * static_cast<std::uint64_t>(format.strides[i]);
  }
  expect((last_element + 1) * bits(format.dtype) <= payload * 8);
  for (std::size_t i = 0; i < format.plane_count; ++i) {
    const Plane& plane = format.planes[i];
    expect(plane.row_count >= 1 && plane.row_pitch_bytes >= plane.row_bytes);
    const Wide last_row = Wide{plane.row_count - 1} * plane.row_pitch_bytes;
    expect(plane.offset_bytes + last_row + plane.row_bytes <= payload);
  }
}

}  // namespace vramlink::test
