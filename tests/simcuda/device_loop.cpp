// The device process: performs what is in the queues of all streams of one client. It is alone in
// its thread group, has none of the client's descriptors, and uses nothing that belongs to a thread
// of the client: no libc, no thread-local variable, no lock. See device_process.hpp for its life.
#include "device_loop.hpp"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "descriptor_message.hpp"
#include "device_state.hpp"
#include "ipc.hpp"
#include "sys.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::uint64_t kPieceBytes = 256 * 1024;
constexpr int kYieldCount = 20;
constexpr std::uint64_t kNapMinNs = 50'000;
constexpr std::uint64_t kNapMaxNs = 200'000;
constexpr std::uint64_t kIdleNs = 500'000'000;
constexpr int kIllegalAddress = 700;

enum class Outcome : std::uint8_t { done, partial, waiting };

/// Says which ranges the device is using, so that the client does not unmap them meanwhile: an
/// announcement, then a look at the generation; the client changes the generation, then looks at
/// the announcement (retire_range). All four are sequentially consistent.
class Use {
 public:
  Use(int index, const Place& place) noexcept : busy_(device_state.busy[index]) {
    busy_.store(place.range + 1);  // 0 for kNoRange
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() { busy_.store(0); }

 private:
  std::atomic<std::uint32_t>& busy_;
};

bool allows(const Range& range, int device, bool write) noexcept {
  const std::uint8_t access = range.access[device].load();
  return write ? access == 3 : (access & 1) != 0;
}

/// Whether the place may still be used. Only inside a Use of it.
bool is_good(const Place& place, int device, bool write) noexcept {
  if (place.range == kNoRange) return true;
  const Range& range = device_state.ranges[place.range];
  return range.generation.load() == place.generation && allows(range, device, write);
}

void fault(const StreamSlot& slot, int status) noexcept {
  int none = 0;
  device_state.contexts[slot.context].fault.compare_exchange_strong(none, status);
}

bool compares(const Op& op, std::uint64_t word) noexcept {
  const std::uint64_t mask = op.width_bytes == 8 ? UINT64_MAX : UINT32_MAX;
  switch (op.compare) {
    case Compare::greater_or_equal:
      return op.width_bytes == 8 ? static_cast<std::int64_t>(word - op.value) >= 0
                                 : static_cast<std::int32_t>(word - op.value) >= 0;
    case Compare::equal:
      return ((word ^ op.value) & mask) == 0;
    case Compare::any_bit:
      return (word & op.value & mask) != 0;
    case Compare::nor:
      return (~(word | op.value) & mask) != 0;
  }
  return true;
}

Outcome wait_word(const StreamSlot& slot, const Op& op) noexcept {
  const Use use(0, op.to);
  if (!is_good(op.to, slot.device, false)) {
    fault(slot, kIllegalAddress);
    return Outcome::done;
  }
  std::uint64_t word = 0;
  if (op.width_bytes == 8) {
    word = reinterpret_cast<const std::atomic<std::uint64_t>*>(op.to.at)->load();
  } else {
    word = reinterpret_cast<const std::atomic<std::uint32_t>*>(op.to.at)->load();
  }
  return compares(op, word) ? Outcome::done : Outcome::waiting;
}

void write_word(const StreamSlot& slot, const Op& op) noexcept {
  const Use use(0, op.to);
  if (!is_good(op.to, slot.device, true)) {
    fault(slot, kIllegalAddress);
  } else if (op.width_bytes == 8) {
    reinterpret_cast<std::atomic<std::uint64_t>*>(op.to.at)->store(op.value,
                                                                   std::memory_order_release);
  } else {
    reinterpret_cast<std::atomic<std::uint32_t>*>(op.to.at)->store(
        static_cast<std::uint32_t>(op.value), std::memory_order_release);
  }
}

std::uint64_t next_piece(const Op& op) noexcept {
  const std::uint64_t left = op.size_bytes - op.done_bytes;
  return left < kPieceBytes ? left : kPieceBytes;
}

Outcome copy_piece(const StreamSlot& slot, Op& op) noexcept {
  const Use target(0, op.to);
  const Use source(1, op.from);
  const int reader = op.from_device < 0 ? slot.device : op.from_device;
  if (!is_good(op.to, slot.device, true) || !is_good(op.from, reader, false)) {
    fault(slot, kIllegalAddress);
    return Outcome::done;
  }
  const std::uint64_t size_bytes = next_piece(op);
  sys::copy_bytes(op.to.at + op.done_bytes, op.from.at + op.done_bytes, size_bytes);
  op.done_bytes += size_bytes;
  return op.done_bytes == op.size_bytes ? Outcome::done : Outcome::partial;
}

Outcome fill_piece(const StreamSlot& slot, Op& op) noexcept {
  const Use use(0, op.to);
  if (!is_good(op.to, slot.device, true)) {
    fault(slot, kIllegalAddress);
    return Outcome::done;
  }
  const std::uint64_t size_bytes = next_piece(op);
  volatile std::byte* at = op.to.at + op.done_bytes;
  for (std::uint64_t i = 0; i < size_bytes; i += op.width_bytes) {
    switch (op.width_bytes) {
      case 1:
        at[i] = static_cast<std::byte>(op.value);
        break;
      case 2:
        *reinterpret_cast<volatile std::uint16_t*>(at + i) = static_cast<std::uint16_t>(op.value);
        break;
      default:
        *reinterpret_cast<volatile std::uint32_t*>(at + i) = static_cast<std::uint32_t>(op.value);
    }
  }
  op.done_bytes += size_bytes;
  return op.done_bytes == op.size_bytes ? Outcome::done : Outcome::partial;
}

void take_away(const Op& op) noexcept {
  const Use use(0, op.to);
  Range& range = device_state.ranges[op.to.range];
  if (range.generation.load() != op.to.generation) return;
  for (auto& access : range.access) access.store(0);
}

Outcome run_kernel(const StreamSlot& slot, Op& op) noexcept {
  device_state.busy[0].store(kBusyAll);
  const bool done = op.kernel.step(op.kernel);
  device_state.busy[0].store(0);
  if (op.kernel.fault != 0) {
    fault(slot, op.kernel.fault);
    return Outcome::done;
  }
  return done ? Outcome::done : Outcome::waiting;
}

/// Counters of events are other processes' too, and later records may be done before earlier ones.
void raise(Counter& counter, std::uint64_t value) noexcept {
  std::uint64_t seen = counter.load();
  while (seen < value && !counter.compare_exchange_weak(seen, value)) {
  }
}

Outcome perform(const StreamSlot& slot, Op& op) noexcept {
  if (device_state.contexts[slot.context].fault.load() != 0) return Outcome::done;
  switch (op.kind) {
    case OpKind::mark:
      if (op.time_ns != nullptr) op.time_ns->store(sys::now_ns());
      if (op.counter != nullptr) raise(*op.counter, op.value);
      return Outcome::done;
    case OpKind::wait_counter:
      return op.counter->load() >= op.value ? Outcome::done : Outcome::waiting;
    case OpKind::wait_word:
      return wait_word(slot, op);
    case OpKind::write_word:
      write_word(slot, op);
      return Outcome::done;
    case OpKind::copy:
      return copy_piece(slot, op);
    case OpKind::fill:
      return fill_piece(slot, op);
    case OpKind::take_away:
      take_away(op);
      return Outcome::done;
    case OpKind::kernel:
      return run_kernel(slot, op);
    case OpKind::fault:
      fault(slot, static_cast<int>(op.value));
      return Outcome::done;
  }
  return Outcome::done;
}

std::uint64_t next_delay_ns() noexcept {
  const std::uint64_t max_ns = device_state.delay_max_ns.load(std::memory_order_relaxed);
  if (max_ns == 0) return device_state.delay_ns.load(std::memory_order_relaxed);
  std::uint64_t state = device_state.delay_seed.load(std::memory_order_relaxed);
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  device_state.delay_seed.store(state, std::memory_order_relaxed);
  return state % (max_ns + 1);
}

/// What a look at all streams found.
struct Look {
  bool progress = false;               ///< something was done
  bool pending = false;                ///< something is waiting
  std::uint64_t next_ns = UINT64_MAX;  ///< when a delayed op may begin
};

void look_at(StreamSlot& slot, Look& look) noexcept {
  std::uint64_t position = slot.completed.load(std::memory_order_relaxed);
  // A few at once; a stream with much to do does not keep the others waiting.
  for (int i = 0; i < 16; ++i, ++position) {
    if (position == slot.tail.load(std::memory_order_seq_cst)) return;
    Op& op = slot.ring[position % kRingSize];
    if (!slot.head_seen) {
      slot.head_seen = true;
      const std::uint64_t delay_ns = op.begins_submission ? next_delay_ns() : 0;
      slot.ready_ns = delay_ns == 0 ? 0 : sys::now_ns() + delay_ns;
    }
    if (slot.ready_ns != 0 && sys::now_ns() < slot.ready_ns) {
      look.pending = true;
      if (slot.ready_ns < look.next_ns) look.next_ns = slot.ready_ns;
      return;
    }
    const Outcome outcome = perform(slot, op);
    if (outcome == Outcome::waiting) {
      look.pending = true;
      return;
    }
    look.progress = true;
    if (outcome == Outcome::partial) return;
    slot.head_seen = false;
    slot.completed.store(position + 1);
    device_state.progress.fetch_add(1);
    if (device_state.waiter_count.load() != 0) sys::futex_wake(device_state.progress, INT_MAX);
  }
}

Look look_at_all() noexcept {
  Look look;
  const std::uint32_t count = device_state.slot_count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) look_at(device_state.slots[i], look);
  return look;
}

// The client's keeper thread is traced so that its process cannot be reaped, and its pidfd cannot
// fire, before the device has ended; see device_process.hpp.
std::atomic<bool> child_changed{false};

void on_child(int) noexcept {
  child_changed.store(true);
  device_state.asleep.store(0);  // a futex wait that is about to begin ends at once
}

[[noreturn]] void end_device() noexcept {
  device_state.life.store(static_cast<std::uint32_t>(DeviceLife::lost));
  device_state.progress.fetch_add(1);
  sys::futex_wake(device_state.progress, INT_MAX);
  for (;;) sys::call(SYS_exit_group, 0);
}

void say(const char* text, unsigned long size_bytes) noexcept {
  // The device has none of the client's descriptors. Its parent is the client while that lives.
  const sys::DescriptorPath path(sys::call(SYS_getppid), 2);
  const long fd = sys::call(SYS_openat, -100, sys::arg(path.text()), 1 /* O_WRONLY */);
  if (fd < 0) return;
  sys::call(SYS_write, fd, sys::arg(text), static_cast<long>(size_bytes));
  sys::call(SYS_close, fd);
}

void on_crash(int) noexcept {
  static constexpr char kText[] =
      "simcuda: the device process crashed: work that was submitted used host memory that the "
      "program has unmapped, cut off, or mapped without the right\n";
  say(kText, sizeof kText - 1);
  end_device();
}

/// rt_sigaction by hand: libc's takes locks, and the restorer that x86 demands is libc's own.
struct KernelSigaction {
  void (*handler)(int);
  unsigned long flags;
#if defined(__x86_64__)
  void (*restorer)();
#endif
  unsigned long mask;
};

#if defined(__x86_64__)
extern "C" void vramlink_simcuda_sigreturn();
asm(".hidden vramlink_simcuda_sigreturn\n"
    ".globl vramlink_simcuda_sigreturn\n"
    "vramlink_simcuda_sigreturn:\n\t"
    "mov $15, %eax\n\t"
    "syscall\n");
constexpr unsigned long kRestorerFlag = 0x04000000;
#endif

void handle(int signal, void (*handler)(int)) noexcept {
  KernelSigaction action{};
  action.handler = handler;
#if defined(__x86_64__)
  action.flags = kRestorerFlag;
  action.restorer = vramlink_simcuda_sigreturn;
#endif
  sys::call(SYS_rt_sigaction, signal, sys::arg(&action), 0, 8);
}

/// Looks after the traced keeper: follows its stops and goings-on. True when it is dead.
bool keeper_is_dead(int keeper_tid) noexcept {
  for (;;) {
    siginfo_t info;
    info.si_pid = 0;
    const long result = sys::call(SYS_waitid, P_PID, keeper_tid, sys::arg(&info),
                                  WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL, 0);
    if (result != 0) return true;
    if (info.si_pid == 0) return false;
    if (info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED) return true;
    // Takes the report away; an end is left, for it is the device's own end that lets go of it.
    sys::call(SYS_waitid, P_PID, keeper_tid, sys::arg(&info), WSTOPPED | WNOHANG | __WALL, 0);
    const int signal = info.si_status & 0xff;
    const bool is_event_stop = (info.si_status >> 8) == PTRACE_EVENT_STOP;
    if (is_event_stop && signal != SIGTRAP) {
      // The client was stopped as a whole; the keeper stays so until SIGCONT.
      sys::call(SYS_ptrace, PTRACE_LISTEN, keeper_tid, 0, 0);
    } else {
      sys::call(SYS_ptrace, PTRACE_CONT, keeper_tid, 0, is_event_stop ? 0 : signal);
    }
  }
}

}  // namespace

void set_up_device_signals() noexcept {
  handle(SIGCHLD, on_child);
  handle(SIGIO, on_ipc_request);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) handle(signal, on_crash);
  unsigned long mask = ~0UL;
  for (const int signal : {SIGCHLD, SIGIO, SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
    mask &= ~(1UL << (signal - 1));
  }
  sys::call(SYS_rt_sigprocmask, SIG_SETMASK, sys::arg(&mask), 0, 8);
}

void run_device(int keeper_tid) noexcept {
  int idle_rounds = 0;
  std::uint64_t nap_ns = kNapMinNs;
  std::uint64_t end_ns = UINT64_MAX;
  for (;;) {
    if (device_state.stop.load()) end_device();
    if (keeper_tid != 0 && end_ns == UINT64_MAX && child_changed.exchange(false) &&
        keeper_is_dead(keeper_tid)) {
      end_ns = sys::now_ns() + device_state.teardown_ns.load();
    }
    if (end_ns != UINT64_MAX && sys::now_ns() >= end_ns) end_device();
    if (ipc_is_waiting()) serve_ipc();
    Look look = look_at_all();
    if (look.progress) {
      idle_rounds = 0;
      nap_ns = kNapMinNs;
      continue;
    }
    if (look.pending && look.next_ns == UINT64_MAX && ++idle_rounds < kYieldCount) {
      sys::yield();
      continue;
    }
    // Dekker with ring_bell(): this store and the look below, its submission and its exchange.
    device_state.asleep.store(1);
    look = look_at_all();
    if (!look.progress && !device_state.stop.load() && !child_changed.load() && !ipc_is_waiting()) {
      std::uint64_t sleep_ns = kIdleNs;
      if (look.pending) {
        sleep_ns = nap_ns;
        nap_ns = nap_ns * 2 < kNapMaxNs ? nap_ns * 2 : kNapMaxNs;
      }
      const std::uint64_t now = sys::now_ns();
      if (look.next_ns != UINT64_MAX) {
        const std::uint64_t until_ns = look.next_ns > now ? look.next_ns - now : 1;
        if (until_ns < sleep_ns || !look.pending) sleep_ns = until_ns;
      }
      if (end_ns != UINT64_MAX) {
        const std::uint64_t until_ns = end_ns > now ? end_ns - now : 1;
        if (until_ns < sleep_ns) sleep_ns = until_ns;
      }
      sys::futex_wait(device_state.asleep, 1, sleep_ns);
    }
    device_state.asleep.store(0);
  }
}

std::byte* device_access(KernelCall& call, std::uint64_t address, std::uint64_t size_bytes,
                         bool write) noexcept {
  const std::uint32_t count = device_state.range_count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Range& range = device_state.ranges[i];
    const std::uint32_t generation = range.generation.load();
    if (generation % 2 == 0 || address < range.base) continue;
    const std::uint64_t offset = address - range.base;
    if (offset > range.size_bytes || size_bytes > range.size_bytes - offset) continue;
    std::byte* at = range.alias + offset;
    // The client waits for a kernel's step to end before it takes a range away.
    if (range.generation.load() == generation && allows(range, call.device, write)) return at;
  }
  call.fault = kIllegalAddress;
  return nullptr;
}

}  // namespace vramlink::simcuda
