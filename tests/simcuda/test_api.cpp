// The functions of simcuda.hpp.
#include "budget.hpp"
#include "devices.hpp"
#include "faults.hpp"
#include "graphs.hpp"
#include "modules.hpp"
#include "pools.hpp"
#include "ranges.hpp"
#include "simcuda.hpp"

namespace vramlink::simcuda {
namespace {

/// The lock for a call that is not one of the driver's.
class Guard {
 public:
  Guard() noexcept { driver_lock.lock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() { driver_lock.unlock(); }
};

void read_ledger(Ledger* ledger) {
  const Guard guard;
  sweep_frees();
  *ledger = {};
  driver.contexts.for_each(
      [&](const Context& context) { ledger->retained_contexts += context.retain_count; });
  driver.streams.for_each([&](const Stream& stream) { ledger->streams += !stream.is_of_thread; });
  ledger->events = driver.events.count();
  ledger->graphs = graph_count();
  ledger->graph_execs = exec_count();
  ledger->modules = module_count();
  ledger->memories = driver.memories.count();
  ledger->pools = pool_count();
  ledger->pool_allocations = pool_allocation_count();
  ledger->reservations = driver.reservations.count();
  driver.memories.for_each(
      [&](const Memory& memory) { ledger->device_bytes += memory.size_bytes; });
  for_each_range([&](const Range& range) {
    switch (range.kind) {
      case RangeKind::device:
        if (range.pool != kNoRange) break;
        ++(range.is_import             ? ledger->imports
           : range.context == kNoRange ? ledger->mappings
                                       : ledger->allocations);
        break;
      case RangeKind::managed:
        ++ledger->allocations;
        break;
      case RangeKind::host:
        ++ledger->pinned;
        break;
      case RangeKind::registered:
        ++ledger->registrations;
        break;
    }
  });
}

bool fail_calls(const char* name, std::uint64_t first, std::uint64_t count, int status) {
  const Guard guard;
  if (name == nullptr || first == 0) return false;
  return plant_fault({name, first, count, FaultKind::fail, static_cast<std::uint64_t>(status)});
}

bool plant_for_test(const Fault* fault) { return fault != nullptr && plant_fault(*fault); }

bool fault_context(int status) {
  const Guard guard;
  const Context* context = current_context();
  if (context == nullptr) return false;
  give_fault(*context, static_cast<Status>(status));
  return true;
}

WorkEnds work_ends() {
  switch (death_proof()) {
    case DeathProof::none:
      return WorkEnds::unknown;
    case DeathProof::traced:
      return WorkEnds::with_pidfd;
    case DeathProof::killed_with_keeper:
      return WorkEnds::before_pidfd;
  }
  return WorkEnds::unknown;
}

std::uint64_t device_bytes_held(int device_number) {
  const Guard guard;
  sweep_frees();
  return bytes_held(device_number);
}

}  // namespace
}  // namespace vramlink::simcuda

const vramlink::simcuda::TestApi* vramlink_simcuda_test_api() {
  using namespace vramlink::simcuda;
  static constexpr TestApi kApi{read_ledger,       call_count,     set_delay,   fail_calls,
                                clear_faults,      fault_context,  work_ends,   device_pid,
                                device_bytes_held, plant_for_test, total_calls, faults_met,
                                last_met,          hanging_calls,  let_go,      spare_thread};
  return &kApi;
}
