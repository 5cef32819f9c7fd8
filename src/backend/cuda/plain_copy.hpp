// Work put into a stream by single calls: copies, stores of words, the order of two streams. The
// context is current in all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.hpp"
#include "backend/cuda/open_device.hpp"
#include "backend/cuda/pointer.hpp"

namespace vramlink::cuda {

/// One end of a copy, as check_copy_side() found it.
struct CopyEnd {
  const std::byte* address;
  PointerKind kind;
};

/// From memory of another GPU that this one cannot reach, through host memory. Codes: driver.
[[nodiscard]] Result<void> copy_across(OpenDevice& device, api::Stream stream, std::byte* target,
                                       const std::byte* source, int source_ordinal,
                                       std::uint64_t size_bytes);

/// Codes: driver.
[[nodiscard]] Result<void> copy_bytes(const OpenDevice& device, api::Stream stream, CopyEnd target,
                                      CopyEnd source, std::uint64_t size_bytes);

/// The stores as one submission, in order. Codes: driver.
[[nodiscard]] Result<void> write_words(const OpenDevice& device, api::Stream stream,
                                       std::span<const backend::WordWrite> writes);

/// Work put into `later` from now on starts after all work that is in `earlier` now.
/// Codes: driver, out_of_memory.
[[nodiscard]] Result<void> order_streams(OpenDevice& device, api::Stream earlier,
                                         api::Stream later);

}  // namespace vramlink::cuda
