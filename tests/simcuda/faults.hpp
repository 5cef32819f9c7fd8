// Faults on demand: what tests, or VRAMLINK_SIMCUDA_FAIL, want calls to meet (simcuda.hpp).
#pragma once

#include <array>
#include <cstdint>

#include "functions.hpp"
#include "simcuda.hpp"

namespace vramlink::simcuda {

struct Context;

/// How many faults can be planted at the same time.
inline constexpr std::uint32_t kFaultMax = 32;

/// What one call meets.
class MetFaults {
 public:
  void add(const Fault& fault) noexcept { faults_[count_++] = fault; }

  /// Delays, hangs, stops and kills of this moment, in the order of planting. Takes no lock, and
  /// must not be called with one.
  void bear(FaultMoment moment) const noexcept;
  /// What the call returns instead; success: nothing.
  [[nodiscard]] Status failure(FaultMoment moment) const noexcept;
  /// The sticky error that its context gets; success: none.
  [[nodiscard]] Status sticky(FaultMoment moment) const noexcept;

 private:
  [[nodiscard]] Status argument_of(FaultKind kind, FaultMoment moment) const noexcept;

  std::uint32_t count_ = 0;
  std::array<Fault, kFaultMax> faults_{};
};

/// Counts the call of a function, by its place in the list of all, and adds what it meets. A thread
/// that is spared is not counted.
void meet_faults(std::uint32_t function, MetFaults& faults) noexcept;

/// Adds a fault; false if no function has the name, its number is 0, or there are too many.
bool plant_fault(const Fault& fault) noexcept;
/// NAME:FIRST:COUNT:WHAT, and more of them behind commas; false if it is not that.
bool plant_faults(const char* text) noexcept;
/// Forgets all that is planted and lets go of what hangs.
void clear_faults() noexcept;
/// Lets go of the calls that hang now.
void let_go() noexcept;

std::uint64_t total_calls() noexcept;
std::uint64_t faults_met() noexcept;
const char* last_met() noexcept;
std::uint32_t hanging_calls() noexcept;
void spare_thread(bool is_spared) noexcept;

// Under the driver's lock.

/// The context meets a fault, unless it has met one.
void give_fault(const Context& context, Status status) noexcept;
/// That of the thread, or all that there are if it has none.
void give_fault_here(Status status) noexcept;
/// The context that this thread submits work to next meets the fault then: the work is taken and
/// never performed.
void arm_fault(Status status) noexcept;
/// When work is submitted to the context of that index.
void spring_fault(std::uint32_t context) noexcept;
/// The armed fault if nothing was submitted, which is over with this; else success.
Status disarm_fault() noexcept;

}  // namespace vramlink::simcuda
