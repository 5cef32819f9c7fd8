// What tests ask of the stand-in driver beyond the driver's API.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "simcuda/simcuda.hpp"

namespace vramlink::test {

/// Of the driver that VRAMLINK_CUDA_LIBRARY names. Null if that is not the stand-in, or cannot be
/// loaded. Loads it and initialises nothing, so a process may still fork.
[[nodiscard]] const simcuda::TestApi* stand_in();

/// How often each function of the driver was called so far, of those that the library or a test
/// calls. Needs the stand-in.
using DriverCalls = std::map<std::string, std::uint64_t>;
[[nodiscard]] DriverCalls driver_calls();
/// What was called since.
[[nodiscard]] DriverCalls driver_calls_since(const DriverCalls& before);

}  // namespace vramlink::test
