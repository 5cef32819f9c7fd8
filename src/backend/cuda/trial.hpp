// What attributes do not tell: whether the back end's needs really work on a GPU.
#pragma once

#include <memory>
#include <string>

#include "backend/cuda/open_device.hpp"

namespace vramlink::cuda {

/// Does on scratch memory what channels of that kind do: allocate, export, import for reading (not
/// by a handle, which no process opens of its own), register a page,
/// write and wait for a word. A few milliseconds; leaves nothing. The context is current.
/// Codes: unsupported (which step failed, and how); out_of_memory as it is.
[[nodiscard]] Result<void> try_out(const std::shared_ptr<OpenDevice>& device,
                                   const std::string& name, wire::MemoryKind kind);

}  // namespace vramlink::cuda
