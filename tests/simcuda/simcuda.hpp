// What tests ask of the stand-in beyond the driver's API. A test that has loaded it (by dlopen, or
// as VRAMLINK_CUDA_LIBRARY) finds everything by one symbol: kTestApiSymbol.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

namespace vramlink::simcuda {

/// What this process owns in the driver.
struct Ledger {
  std::uint32_t retained_contexts;
  std::uint32_t streams;  ///< without the default ones
  std::uint32_t events;
  std::uint32_t graphs;
  std::uint32_t graph_execs;
  std::uint32_t modules;
  std::uint32_t memories;      ///< held by handle or mapping; cuMemAlloc's too
  std::uint32_t mappings;      ///< of memory by handle
  std::uint32_t reservations;  ///< of addresses
  std::uint32_t allocations;   ///< by cuMemAlloc and cuMemAllocManaged
  std::uint32_t imports;       ///< of memory by cuIpcOpenMemHandle
  std::uint32_t pinned;        ///< by cuMemAllocHost and cuMemHostAlloc
  std::uint32_t registrations;
  std::uint64_t device_bytes;      ///< of the memories
  std::uint32_t pools;             ///< made or imported; without the default ones
  std::uint32_t pool_allocations;  ///< of all pools

  friend bool operator==(const Ledger&, const Ledger&) = default;
};

/// How the end of submitted work is tied to the end of its process; see docs/testing.md.
enum class WorkEnds : int {
  unknown = 0,
  with_pidfd = 1,   ///< goes on after a kill, until the pidfd fires
  before_pidfd = 2  ///< ends with the kill, since the system does not permit tracing
};

/// What a call meets on demand.
enum class FaultKind : int {
  fail = 0,    ///< it returns `argument`, a CUresult; before: and does nothing
  delay = 1,   ///< it takes `argument` microseconds more
  hang = 2,    ///< it does not return before let_go(), or its process ends
  sticky = 3,  ///< its context meets `argument`, a CUresult; that of a thread without one: all do.
               ///< before: the call returns it, if it needs a healthy context; after: work that the
               ///< call submits is taken and never performed, and later calls return it
  kill = 4,    ///< SIGKILL to its process
  stop = 5,    ///< SIGSTOP to its process
};
/// Of the call's effect. as_driver: after it for calls that end something, which the driver ends
/// also when it returns an error; before it for all others.
enum class FaultMoment : int { before = 0, after = 1, as_driver = 2 };

struct Fault {
  const char* name = nullptr;  ///< of a function, or its symbol; nullptr: of any
  std::uint64_t first = 1;     ///< number of the call that meets it, counted from now on
  std::uint64_t count = 1;     ///< how many do
  FaultKind kind = FaultKind::fail;
  std::uint64_t argument = 0;
  FaultMoment moment = FaultMoment::before;
};

/// All function pointers are good from any thread.
struct TestApi {
  void (*ledger)(Ledger* ledger);
  /// Calls of a function so far, by its name or symbol.
  std::uint64_t (*call_count)(const char* name);
  /// Each submission waits this long in its queue, or a random time up to the maximum.
  void (*set_delay)(std::uint64_t fixed_us, std::uint64_t random_max_us, std::uint64_t seed);
  /// Calls number `first` (from 1) to `first + count - 1` of a function, from now on, do nothing
  /// and return `status`. False for an unknown name.
  bool (*fail_calls)(const char* name, std::uint64_t first, std::uint64_t count, int status);
  /// Forgets all that is planted; calls that hang go on.
  void (*clear_failures)();
  /// The current context's device has met this fault; false without a current context.
  bool (*fault_context)(int status);
  WorkEnds (*work_ends)();
  /// The process that performs what this one submits; 0 before cuInit.
  int (*device_pid)();
  /// Bytes that all processes together hold on a device, by its number on the host.
  std::uint64_t (*device_bytes_held)(int device_number);
  /// Plants a fault beside those that there are. False for an unknown name, a `first` of 0, or if
  /// there are too many (32).
  bool (*plant)(const Fault* fault);
  /// Calls of all functions so far, and how often one met a planted fault: a loop over the calls of
  /// a program has gone past the last one when nothing was met.
  std::uint64_t (*total_calls)();
  std::uint64_t (*faults_met)();
  /// The symbol of the last function whose call met one; nullptr if none has.
  const char* (*last_met)();
  /// Calls that hang now; let_go() lets these go on, and not those that hang later.
  std::uint32_t (*hanging_calls)();
  void (*let_go)();
  /// Calls of this thread count in none of the above and meet nothing, until it says false: they
  /// are the test's own.
  void (*spare_thread)(bool is_spared);
};

inline constexpr const char* kTestApiSymbol = "vramlink_simcuda_test_api";

inline std::string to_string(const Ledger& ledger) {
  std::string text;
  const auto add = [&text](const char* name, std::uint64_t count) {
    if (count != 0) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + name;
  };
  add("retained contexts", ledger.retained_contexts);
  add("streams", ledger.streams);
  add("events", ledger.events);
  add("graphs", ledger.graphs);
  add("executable graphs", ledger.graph_execs);
  add("modules", ledger.modules);
  add("memories", ledger.memories);
  add("mappings", ledger.mappings);
  add("reservations", ledger.reservations);
  add("allocations", ledger.allocations);
  add("imports by handle", ledger.imports);
  add("pinned allocations", ledger.pinned);
  add("registrations", ledger.registrations);
  add("device bytes", ledger.device_bytes);
  add("pools", ledger.pools);
  add("pool allocations", ledger.pool_allocations);
  return text.empty() ? "nothing" : text;
}

/// For GoogleTest's messages.
inline void PrintTo(const Ledger& ledger, std::ostream* stream) { *stream << to_string(ledger); }

}  // namespace vramlink::simcuda

/// The stand-in's own; others get its address by dlsym(library, kTestApiSymbol).
extern "C" __attribute__((visibility("default"))) const vramlink::simcuda::TestApi*
vramlink_simcuda_test_api();
