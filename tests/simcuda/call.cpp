#include "call.hpp"

#include <fcntl.h>
#include <sys/prctl.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "devices.hpp"
#include "driver.hpp"
#include "faults.hpp"
#include "host_functions.hpp"
#include "pools.hpp"
#include "profiles.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::size_t kFunctionCount = static_cast<std::size_t>(FunctionId::count);

struct FunctionEntry {
  const char* name;
  const char* symbol;
  int version;
  void* address;
};

const FunctionEntry* function_table() noexcept {
  static const std::array<FunctionEntry, kFunctionCount> table{{
#define SIMCUDA_ENTRY(member, name, symbol, version, ...) \
  {#name, #symbol, version, reinterpret_cast<void*>(&simcuda::symbol)},
      SIMCUDA_SYMBOLS(SIMCUDA_ENTRY)
#undef SIMCUDA_ENTRY
  }};
  return table.data();
}

std::array<std::atomic<std::uint64_t>, kFunctionCount> counts;
std::atomic<bool> log_is_on{false};
std::array<char, 512> log_path{};

bool is_named(const FunctionEntry& entry, const char* name) noexcept {
  return std::strcmp(entry.name, name) == 0 || std::strcmp(entry.symbol, name) == 0;
}

/// The name of the reactor's thread (src/runtime/reactor.cpp).
constexpr const char* kReactorName = "vl-reactor";

bool is_reactor() noexcept {
  std::array<char, 16> name{};
  sys::call(SYS_prctl, PR_GET_NAME, sys::arg(name.data()));
  return std::strcmp(name.data(), kReactorName) == 0;
}

/// Those that are read before the first call does anything.
void read_call_settings() noexcept {
  static std::atomic<bool> is_read{false};
  if (is_read.load(std::memory_order_relaxed) || is_read.exchange(true)) return;
  if (const char* path = std::getenv("VRAMLINK_SIMCUDA_LOG"); path != nullptr && *path != 0) {
    std::snprintf(log_path.data(), log_path.size(), "%s", path);
    log_is_on.store(true, std::memory_order_release);
  }
  const char* text = std::getenv("VRAMLINK_SIMCUDA_FAIL");
  if (text == nullptr || plant_faults(text)) return;
  std::fprintf(stderr, "simcuda: VRAMLINK_SIMCUDA_FAIL=%s: not NAME:FIRST:COUNT:WHAT,...\n", text);
  std::abort();
}

}  // namespace

Call::Call(FunctionId function, Needs needs) noexcept : function_(function), needs_(needs) {
  read_call_settings();
  if (is_logged()) {
    const FunctionEntry& entry = function_table()[static_cast<std::size_t>(function)];
    length_ = static_cast<std::size_t>(std::snprintf(line_.data(), line_.size(), "%d %d %s",
                                                     sys::pid(), sys::tid(), entry.symbol));
  }
  if (is_reactor()) {
    std::array<char, 160> text{};
    const int size = std::snprintf(
        text.data(), text.size(), "simcuda: the thread %s called %s; it must make no driver call\n",
        kReactorName, function_table()[static_cast<std::size_t>(function)].symbol);
    sys::call(SYS_write, 2, sys::arg(text.data()), size);
    std::abort();
  }
}

Status Call::begin() noexcept {
  counts[static_cast<std::size_t>(function_)].fetch_add(1);
  if (needs_ != Needs::nothing && is_in_host_function()) return Status::not_permitted;
  // A fork of a process with a driver has none and cannot get one; its copy of the lock may be
  // held.
  const Process process = this_process();
  if (process != Process::forked) meet_faults(static_cast<std::uint32_t>(function_), faults_);
  faults_.bear(FaultMoment::before);
  Status planted = faults_.failure(FaultMoment::before);
  if (planted == Status::success && lacks(symbol_of(static_cast<std::uint32_t>(function_)))) {
    planted = Status::not_supported;
  }
  if (needs_ == Needs::nothing) return planted;
  if (process == Process::forked) return Status::not_initialized;
  if (process == Process::fresh && needs_ != Needs::start) return Status::not_initialized;
  if (device_state.stop.load()) return Status::deinitialized;
  driver_lock.lock();
  if (const Status fault = faults_.sticky(FaultMoment::before); fault != Status::success) {
    give_fault_here(fault);
  }
  arm_fault(faults_.sticky(FaultMoment::after));
  Status status = planted;
  if (status == Status::success && (needs_ == Needs::context || needs_ == Needs::healthy)) {
    const Context* context = current_context();
    if (context == nullptr) {
      // A thread may have a context current that is gone.
      status = current_context_handle() == nullptr ? Status::invalid_context
                                                   : Status::context_is_destroyed;
    } else if (needs_ == Needs::healthy) {
      status = fault_of(index_of(*context));
    }
  }
  if (status != Status::success) end();
  return status;
}

void Call::end() noexcept {
  if (needs_ == Needs::nothing) return;
  if (const Status fault = disarm_fault(); fault != Status::success) give_fault_here(fault);
  sweep_frees();
  driver_lock.unlock();
}

Status Call::leave(Status status) noexcept {
  faults_.bear(FaultMoment::after);
  const Status planted = faults_.failure(FaultMoment::after);
  return planted == Status::success ? status : planted;
}

bool Call::is_logged() const noexcept { return log_is_on.load(std::memory_order_acquire); }

void Call::append(const char* format, std::uint64_t value) noexcept {
  if (length_ >= line_.size()) return;
  const int size = std::snprintf(line_.data() + length_, line_.size() - length_, format, value);
  if (size > 0) length_ += static_cast<std::size_t>(size);
}

void Call::show(std::uint64_t value) noexcept { append(" %" PRIu64, value); }
void Call::show(std::int64_t value) noexcept {
  append(" %" PRId64, static_cast<std::uint64_t>(value));
}
void Call::show(const volatile void* value) noexcept {
  append(" 0x%" PRIx64, reinterpret_cast<std::uintptr_t>(value));
}
void Call::show_text(const char* text) noexcept {
  if (length_ >= line_.size()) return;
  const int size = std::snprintf(line_.data() + length_, line_.size() - length_, "%s", text);
  if (size > 0) length_ += static_cast<std::size_t>(size);
}

void Call::write_log(Status status) noexcept {
  const char* name = error_name(status);
  append(" = %" PRIu64 " ", static_cast<std::uint64_t>(status));
  show_text(name == nullptr ? "?" : name);
  show_text("\n");
  if (length_ >= line_.size()) length_ = line_.size() - 1;
  line_[length_ - 1] = '\n';
  // Opened for each line: a descriptor that stays open would be counted as a leak of the test.
  const long fd = sys::call(SYS_openat, AT_FDCWD, sys::arg(log_path.data()),
                            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (sys::failed(fd)) return;
  sys::call(SYS_write, fd, sys::arg(line_.data()), static_cast<long>(length_));
  sys::call(SYS_close, fd);
}

std::uint64_t call_count(const char* name) noexcept {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < kFunctionCount; ++i) {
    if (is_named(function_table()[i], name)) count += counts[i].load();
  }
  return count;
}

bool is_function_named(std::uint32_t function, const char* name) noexcept {
  return is_named(function_table()[function], name);
}

const char* symbol_of(std::uint32_t function) noexcept { return function_table()[function].symbol; }

Status find_function(const char* name, void** function, int version,
                     api::ProcQuery* found) noexcept {
  const FunctionEntry* best = nullptr;
  bool is_known = false;
  for (std::size_t i = 0; i < kFunctionCount; ++i) {
    const FunctionEntry& entry = function_table()[i];
    if (std::strcmp(entry.name, name) != 0 || entry.version > driver_version()) continue;
    is_known = true;
    if (entry.version > version) continue;
    if (best == nullptr || entry.version > best->version) best = &entry;
  }
  *function = best == nullptr ? nullptr : best->address;
  if (found != nullptr) {
    *found = best != nullptr ? api::ProcQuery::success
             : is_known      ? api::ProcQuery::version_not_sufficient
                             : api::ProcQuery::symbol_not_found;
  }
  return best == nullptr ? Status::not_found : Status::success;
}

Status cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                           api::ProcQuery* found) {
  return enter(
      FunctionId::cuGetProcAddress_v2, Needs::nothing,
      [&] {
        if (name == nullptr || function == nullptr || flags > 2) return Status::invalid_value;
        if (!profile().has_query) {  // a library cannot hide a symbol: it is of no use instead
          *function = nullptr;
          return Status::not_found;
        }
        // Real drivers answer success and say by `found` what is missing.
        const Status status = find_function(name, function, version, found);
        return found != nullptr ? Status::success : status;
      },
      name, out(function), version, flags, out(found));
}

Status cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  return enter(
      FunctionId::cuGetProcAddress, Needs::nothing,
      [&] {
        if (name == nullptr || function == nullptr || flags > 2) return Status::invalid_value;
        return find_function(name, function, version, nullptr);
      },
      name, out(function), version, flags);
}

}  // namespace vramlink::simcuda
