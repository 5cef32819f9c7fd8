// The host back end: memfds and plain stores.
#pragma once

#include <memory>

#include "backend/backend.hpp"

namespace vramlink::host {

/// Always usable: it needs the kernel alone.
[[nodiscard]] std::unique_ptr<backend::Backend> create();

}  // namespace vramlink::host
