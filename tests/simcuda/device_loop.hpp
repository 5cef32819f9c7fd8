// The entry points of the device process, for device_process.cpp.
#pragma once

namespace vramlink::simcuda {

/// In the device process, first of all: the client's handlers must not run here.
void set_up_device_signals() noexcept;

/// Runs until the client is gone or stops it. `keeper_tid` is the client's traced thread; 0 if it
/// could not be traced, and the kernel kills the device with the keeper.
[[noreturn]] void run_device(int keeper_tid) noexcept;

}  // namespace vramlink::simcuda
