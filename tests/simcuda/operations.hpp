// What single calls and graph nodes have in common: checking an operation and putting it into a
// queue.
#pragma once

#include <cstdint>
#include <span>

#include "ranges.hpp"
#include "streams.hpp"

namespace vramlink::simcuda {

inline constexpr unsigned kBatchMax = 256;

/// What the caller says an address is.
enum class Side : std::uint8_t { any, device, host };

struct Copy {
  std::uint64_t target = 0;
  std::uint64_t source = 0;
  std::uint64_t size_bytes = 0;
  Side target_side = Side::any;
  Side source_side = Side::any;
  int source_device = -1;  ///< that reads the source; -1: the stream's
};

/// The one row that a Memcpy3d describes. invalid_value, or not_supported for what has rows.
Status to_copy(const api::Memcpy3d& parameters, Copy& copy) noexcept;

struct Fill {
  std::uint64_t target = 0;
  std::uint64_t count = 0;  ///< of elements
  std::uint8_t element_bytes = 1;
  std::uint32_t value = 0;
};

/// Adds the op; `is_pageable` says whether the caller has to wait for it. The submission must be
/// dropped if this is not success.
Status add_copy(Submission& submission, const Copy& copy, bool& is_pageable) noexcept;
Status add_fill(Submission& submission, const Fill& fill) noexcept;
/// `in_batch`: as a part of a batch, where less is allowed.
Status add_word(Submission& submission, const api::MemOp& operation, bool in_batch) noexcept;

/// The same checks without a queue, for a node of a graph.
Status check_copy(const Copy& copy, int device) noexcept;
Status check_fill(const Fill& fill, int device) noexcept;
Status check_words(std::span<const api::MemOp> operations, int device) noexcept;

}  // namespace vramlink::simcuda
