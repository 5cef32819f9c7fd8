#include "call.hpp"

#include <fcntl.h>
#include <sys/prctl.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "devices.hpp"
#include "driver.hpp"
#include "host_functions.hpp"

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

struct PlantedFailure {
  std::uint64_t first = 0;  ///< in the function's count of calls
  std::uint64_t count = 0;
  std::size_t function = 0;
  Status status = Status::success;
};

std::array<std::atomic<std::uint64_t>, kFunctionCount> counts;
std::array<PlantedFailure, 16> failures;
std::atomic<std::uint32_t> failure_count{0};
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

Status planted(FunctionId function, std::uint64_t number) noexcept {
  if (failure_count.load(std::memory_order_acquire) == 0) return Status::success;
  for (const PlantedFailure& failure : failures) {
    if (failure.function == static_cast<std::size_t>(function) && number >= failure.first &&
        number - failure.first < failure.count) {
      return failure.status;
    }
  }
  return Status::success;
}

}  // namespace

Call::Call(FunctionId function, Needs needs) noexcept : function_(function), needs_(needs) {
  if (function == FunctionId::cuInit) read_call_settings();
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
  const std::uint64_t number = counts[static_cast<std::size_t>(function_)].fetch_add(1) + 1;
  if (needs_ == Needs::nothing) return planted(function_, number);
  if (is_in_host_function()) return Status::not_permitted;
  // A fork of a process with a driver has none and cannot get one; its copy of the lock may be
  // held.
  const Process process = this_process();
  if (process == Process::forked) return Status::not_initialized;
  if (process == Process::fresh && needs_ != Needs::start) return Status::not_initialized;
  if (device_state.stop.load()) return Status::deinitialized;
  driver_lock.lock();
  Status status = planted(function_, number);
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
  if (status != Status::success) driver_lock.unlock();
  return status;
}

void Call::end() noexcept {
  if (needs_ != Needs::nothing) driver_lock.unlock();
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

bool plant_failure(const char* name, std::uint64_t first, std::uint64_t count,
                   Status status) noexcept {
  bool found = false;
  for (std::size_t i = 0; i < kFunctionCount; ++i) {
    if (!is_named(function_table()[i], name)) continue;
    for (PlantedFailure& failure : failures) {
      if (failure.count != 0) continue;
      failure = {counts[i].load() + first, count, i, status};
      failure_count.fetch_add(1, std::memory_order_release);
      found = true;
      break;
    }
  }
  return found;
}

void clear_failures() noexcept {
  for (PlantedFailure& failure : failures) failure = {};
  failure_count.store(0);
}

void read_call_settings() noexcept {
  static std::atomic<bool> is_read{false};
  if (is_read.exchange(true)) return;
  if (const char* path = std::getenv("VRAMLINK_SIMCUDA_LOG"); path != nullptr && *path != 0) {
    std::snprintf(log_path.data(), log_path.size(), "%s", path);
    log_is_on.store(true, std::memory_order_release);
  }
  // NAME:FIRST:COUNT:STATUS
  if (const char* text = std::getenv("VRAMLINK_SIMCUDA_FAIL"); text != nullptr && *text != 0) {
    std::array<char, 64> name{};
    std::uint64_t first = 1;
    std::uint64_t count = 1;
    int status = static_cast<int>(Status::unknown);
    const int fields = std::sscanf(text, "%63[^:]:%" SCNu64 ":%" SCNu64 ":%d", name.data(), &first,
                                   &count, &status);
    if (fields < 1 || !plant_failure(name.data(), first, count, static_cast<Status>(status))) {
      std::fprintf(stderr, "simcuda: VRAMLINK_SIMCUDA_FAIL=%s: not NAME:FIRST:COUNT:STATUS\n",
                   text);
      std::abort();
    }
  }
}

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
