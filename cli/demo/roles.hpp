// demo: what the children do.
#pragma once

#include <cstdint>

#include "options.hpp"
#include "parent_link.hpp"

namespace vramlink::cli::demo {

inline constexpr std::uint32_t kSubscriberCount = 2;
inline constexpr std::uint32_t kSlotCount = 8;

[[nodiscard]] int run_publisher(const DemoChildOptions& options, ParentLink& link);
[[nodiscard]] int run_subscriber(const DemoChildOptions& options, ParentLink& link);

}  // namespace vramlink::cli::demo
