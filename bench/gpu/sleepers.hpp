// bench_gpu_publish: the part with subscribers that sleep.
#pragma once

#include "harness/report.hpp"

namespace vramlink::bench {

/// What publishing may take beyond the driver's batch, and beyond the wakes of who sleeps: the mark
/// for 64 subscribers.
inline constexpr double kPublishToManyUs = 0.8;

/// publish() in place while subscribers sleep in receive(), beside the driver's batch and raw futex
/// wakes of as many sleepers. Adds both rows.
void measure_sleepers(Report& report, bool smoke);

}  // namespace vramlink::bench
