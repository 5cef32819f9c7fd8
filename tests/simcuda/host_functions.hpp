// Functions of the program that run in the order of a stream, on a thread of the client.
#pragma once

namespace vramlink::simcuda {

/// Whether the calling thread is in one: it may make no call of the driver.
bool is_in_host_function() noexcept;

}  // namespace vramlink::simcuda
