#include "faults.hpp"

#include <signal.h>

#include <atomic>
#include <bitset>
#include <charconv>
#include <string_view>

#include "driver.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::size_t kFunctionCount = static_cast<std::size_t>(FunctionId::count);
constexpr std::uint64_t kLookNs = 1'000'000'000;

struct Planted {
  Fault fault;
  std::bitset<kFunctionCount> functions;
  std::uint64_t seen = 0;  ///< calls that it is about, since it was planted
};

/// Its own: calls that need no driver look as well.
sys::Lock lock;
std::array<Planted, kFaultMax> planted;
std::atomic<std::uint32_t> planted_count{0};

std::atomic<std::uint64_t> total{0};
std::atomic<std::uint64_t> met{0};
std::atomic<std::uint32_t> last_function{0};  ///< function + 1
std::atomic<std::uint32_t> hanging{0};
/// Moves on when calls are let go.
std::atomic<std::uint32_t> let_go_count{0};

thread_local bool spared = false;
thread_local Status armed = Status::success;

void pause_for(std::uint64_t duration_ns) noexcept {
  static const std::atomic<std::uint32_t> kNever{0};
  const std::uint64_t end_ns = sys::now_ns() + duration_ns;
  for (std::uint64_t now_ns = sys::now_ns(); now_ns < end_ns; now_ns = sys::now_ns()) {
    sys::futex_wait(kNever, 0, end_ns - now_ns);
  }
}

void hang() noexcept {
  const std::uint32_t before = let_go_count.load();
  hanging.fetch_add(1);
  while (let_go_count.load() == before) sys::futex_wait(let_go_count, before, kLookNs);
  hanging.fetch_sub(1);
}

/// The whole process: the signal is there when the call returns, unless another thread takes it.
void send_own(int signal) noexcept {
  sys::call(SYS_kill, sys::pid(), signal);
  if (signal == SIGKILL) pause_for(UINT32_MAX * kLookNs);
}

/// Whether a function ends something, which is gone then whatever it returns.
bool ends_something(std::uint32_t function) noexcept {
  const std::string_view symbol = symbol_of(function);
  for (const std::string_view word :
       {"Destroy", "Release", "Free", "Unmap", "Unregister", "Unload", "Pop", "Close"}) {
    if (symbol.find(word) != std::string_view::npos) return true;
  }
  return false;
}

std::string_view next_field(std::string_view& text, char separator) noexcept {
  const std::size_t end = text.find(separator);
  const std::string_view field = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return field;
}

bool read_number(std::string_view text, std::uint64_t& number) noexcept {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() && end == text.data() + text.size();
}

/// A number, which is the status of a failure, or KIND[=ARGUMENT]; then @after or @as_driver.
bool read_what(std::string_view text, Fault& fault) noexcept {
  struct Word {
    std::string_view name;
    FaultKind kind;
    std::uint64_t argument;
    bool needs_argument;
  };
  static constexpr auto kIllegalAddress = static_cast<std::uint64_t>(Status::illegal_address);
  static constexpr std::array kWords{
      Word{"fail", FaultKind::fail, 0, true},
      Word{"delay", FaultKind::delay, 0, true},
      Word{"hang", FaultKind::hang, 0, false},
      Word{"sticky", FaultKind::sticky, kIllegalAddress, false},
      Word{"kill", FaultKind::kill, 0, false},
      Word{"stop", FaultKind::stop, 0, false},
  };
  std::string_view moment = text;
  std::string_view what = next_field(moment, '@');
  if (what.size() != text.size()) {
    if (moment != "after" && moment != "as_driver") return false;
    fault.moment = moment == "after" ? FaultMoment::after : FaultMoment::as_driver;
  }
  if (read_number(what, fault.argument)) return true;
  const std::string_view name = next_field(what, '=');
  for (const Word& word : kWords) {
    if (word.name != name) continue;
    fault.kind = word.kind;
    fault.argument = word.argument;
    return what.empty() ? !word.needs_argument : read_number(what, fault.argument);
  }
  return false;
}

bool plant_text(std::string_view text) noexcept {
  Fault fault{nullptr, 1, 1, FaultKind::fail, static_cast<std::uint64_t>(Status::unknown)};
  std::array<char, 64> name{};
  const std::string_view function = next_field(text, ':');
  if (function.empty() || function.size() >= name.size()) return false;
  if (function != "*") {
    function.copy(name.data(), function.size());
    fault.name = name.data();
  }
  for (std::uint64_t* number : {&fault.first, &fault.count}) {
    if (text.empty()) break;
    if (!read_number(next_field(text, ':'), *number)) return false;
  }
  if (!text.empty() && !read_what(text, fault)) return false;
  return plant_fault(fault);
}

}  // namespace

void MetFaults::bear(FaultMoment moment) const noexcept {
  for (std::uint32_t i = 0; i < count_; ++i) {
    const Fault& fault = faults_[i];
    if (fault.moment != moment) continue;
    switch (fault.kind) {
      case FaultKind::delay:
        pause_for(fault.argument * 1000);
        break;
      case FaultKind::hang:
        hang();
        break;
      case FaultKind::kill:
        send_own(SIGKILL);
        break;
      case FaultKind::stop:
        send_own(SIGSTOP);
        break;
      case FaultKind::fail:
      case FaultKind::sticky:
        break;
    }
  }
}

Status MetFaults::argument_of(FaultKind kind, FaultMoment moment) const noexcept {
  for (std::uint32_t i = 0; i < count_; ++i) {
    if (faults_[i].kind == kind && faults_[i].moment == moment) {
      return static_cast<Status>(faults_[i].argument);
    }
  }
  return Status::success;
}

Status MetFaults::failure(FaultMoment moment) const noexcept {
  return argument_of(FaultKind::fail, moment);
}
Status MetFaults::sticky(FaultMoment moment) const noexcept {
  return argument_of(FaultKind::sticky, moment);
}

void meet_faults(std::uint32_t function, MetFaults& faults) noexcept {
  if (spared) return;
  total.fetch_add(1);
  if (planted_count.load(std::memory_order_acquire) == 0) return;
  lock.lock();
  for (std::uint32_t i = 0; i < planted_count.load(); ++i) {
    Planted& each = planted[i];
    if (!each.functions.test(function)) continue;
    const std::uint64_t number = ++each.seen;
    if (number < each.fault.first || number - each.fault.first >= each.fault.count) continue;
    Fault fault = each.fault;
    if (fault.moment == FaultMoment::as_driver) {
      fault.moment = ends_something(function) ? FaultMoment::after : FaultMoment::before;
    }
    faults.add(fault);
    last_function.store(function + 1);
    met.fetch_add(1);
  }
  lock.unlock();
}

bool plant_fault(const Fault& fault) noexcept {
  Planted added;
  added.fault = fault;
  added.fault.name = nullptr;  // the caller's
  for (std::uint32_t i = 0; i < kFunctionCount; ++i) {
    if (fault.name == nullptr || is_function_named(i, fault.name)) added.functions.set(i);
  }
  if (added.functions.none() || fault.first == 0) return false;
  lock.lock();
  const std::uint32_t count = planted_count.load();
  if (count < kFaultMax) {
    planted[count] = added;
    planted_count.store(count + 1, std::memory_order_release);
  }
  lock.unlock();
  return count < kFaultMax;
}

bool plant_faults(const char* text) noexcept {
  std::string_view rest = text;
  while (!rest.empty()) {
    if (!plant_text(next_field(rest, ','))) return false;
  }
  return true;
}

void clear_faults() noexcept {
  lock.lock();
  planted_count.store(0);
  lock.unlock();
  let_go();
}

void let_go() noexcept {
  let_go_count.fetch_add(1);
  sys::futex_wake(let_go_count, INT_MAX);
}

std::uint64_t total_calls() noexcept { return total.load(); }
std::uint64_t faults_met() noexcept { return met.load(); }
const char* last_met() noexcept {
  const std::uint32_t function = last_function.load();
  return function == 0 ? nullptr : symbol_of(function - 1);
}
std::uint32_t hanging_calls() noexcept { return hanging.load(); }
void spare_thread(bool is_spared) noexcept { spared = is_spared; }

void give_fault(const Context& context, Status status) noexcept {
  int none = 0;
  device_state.contexts[index_of(context)].fault.compare_exchange_strong(none,
                                                                         static_cast<int>(status));
  ring_bell();
}

void give_fault_here(Status status) noexcept {
  if (const Context* context = current_context(); context != nullptr) {
    give_fault(*context, status);
  } else {
    driver.contexts.for_each([&](const Context& each) { give_fault(each, status); });
  }
}

void arm_fault(Status status) noexcept { armed = status; }

void spring_fault(std::uint32_t context) noexcept {
  if (armed == Status::success) return;
  give_fault(driver.contexts.at(context), armed);
  armed = Status::success;
}

Status disarm_fault() noexcept {
  const Status status = armed;
  armed = Status::success;
  return status;
}

}  // namespace vramlink::simcuda
