// demo: what a child tells its parent through its standard output.
#pragma once

#include <cstdint>
#include <type_traits>

namespace vramlink::cli::demo {

/// Written whole, at most PIPE_BUF bytes, so reports never mix. Both ends are one program.
struct Report {
  static constexpr std::uint32_t kMagic = 0x444d4c56;

  std::uint32_t magic = kMagic;
  std::uint32_t final = 0;          ///< the last of this process
  std::uint64_t frames = 0;         ///< published, or received
  std::uint64_t newest_number = 0;  ///< of the test card
  std::uint64_t newest_life = 0;    ///< subscriber: the publisher process it came from
  std::uint64_t torn = 0;
  std::uint64_t lost = 0;
  std::uint64_t skipped = 0;
  std::uint64_t dropped = 0;  ///< publisher: no slot was free
  std::int64_t publish_p50_ns = -1;
  std::int64_t age_p50_ns = -1;
  std::int64_t age_p99_ns = -1;
  std::uint64_t saved_picture = 0;
};
static_assert(std::is_trivially_copyable_v<Report> && sizeof(Report) <= 512);

}  // namespace vramlink::cli::demo
