// The declarations of all functions that the stand-in exports.
#pragma once

#include "function_list.hpp"

namespace vramlink::simcuda {

// A definition that differs from the list does not compile.
#define SIMCUDA_DECLARE(member, name, symbol, version, ...) \
  extern "C" __attribute__((visibility("default"))) signatures::symbol##_signature symbol;
SIMCUDA_SYMBOLS(SIMCUDA_DECLARE)
#undef SIMCUDA_DECLARE

}  // namespace vramlink::simcuda
