// Streams and the ways into them.
#include "streams.hpp"

#include <sys/mman.h>

#include <array>

namespace vramlink::simcuda {
namespace {

constexpr unsigned kFlagsKnown = api::kStreamNonBlocking;

/// A thread's own default streams, one for each context that it used them with.
struct ThreadStreams {
  std::array<api::Context, kContextMax> contexts;
  std::array<api::Stream, kContextMax> streams;
};
thread_local ThreadStreams thread_streams{};

Status create_stream(Context& context, unsigned flags, api::Stream& handle) noexcept {
  Stream* stream = driver.streams.add();
  if (stream == nullptr) return Status::out_of_memory;
  stream->context = index_of(context);
  stream->flags = flags;
  stream->slot = take_slot(stream->context, context.device, (flags & api::kStreamNonBlocking) == 0);
  if (stream->slot == kNoRange) {
    driver.streams.remove(stream);
    return Status::out_of_memory;
  }
  handle = to_handle<api::Stream>(driver.streams, stream);
  return Status::success;
}

Status find_thread_stream(api::Stream& handle) noexcept {
  Context* context = current_context();
  if (context == nullptr) return Status::invalid_context;
  const std::uint32_t index = index_of(*context);
  const api::Context owner = current_context_handle();
  if (thread_streams.contexts[index] != owner) {
    const Status status = create_stream(*context, 0, thread_streams.streams[index]);
    if (status != Status::success) return status;
    driver.streams.find(thread_streams.streams[index])->is_of_thread = true;
    thread_streams.contexts[index] = owner;
  }
  handle = thread_streams.streams[index];
  return Status::success;
}

bool is_complete(const StreamSlot& slot, std::uint64_t end) noexcept {
  return slot.completed.load() >= end;
}

Status device_gone() noexcept {
  return device_state.stop.load() ? Status::deinitialized : Status::device_unavailable;
}

}  // namespace

std::uint32_t take_slot(std::uint32_t context, int device, bool is_blocking) noexcept {
  std::uint32_t count = device_state.slot_count.load();
  std::uint32_t index = 0;
  // A queue that was let go with work in it is first emptied by the device.
  for (; index < count; ++index) {
    const StreamSlot& slot = device_state.slots[index];
    if (!slot.taken && is_complete(slot, slot.tail.load())) break;
  }
  if (index == kStreamSlotMax) return kNoRange;
  StreamSlot& slot = device_state.slots[index];
  if (slot.ring == nullptr) {
    const long ring = sys::call(SYS_mmap, 0, kRingSize * sizeof(Op), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sys::failed(ring)) return kNoRange;
    slot.ring = reinterpret_cast<Op*>(ring);
  }
  slot.context = context;
  slot.device = device;
  slot.is_blocking = is_blocking;
  slot.taken = true;
  if (index == count) device_state.slot_count.store(index + 1, std::memory_order_release);
  return index;
}

Status find_stream(api::Stream handle, StreamRef& stream) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value == 0 || value == api::kStreamLegacy) {
    const Context* context = current_context();
    if (context == nullptr) return Status::invalid_context;
    stream = {context->stream_slot, index_of(*context), true, false};
    return Status::success;
  }
  if (value == api::kStreamPerThread) {
    const Status status = find_thread_stream(handle);
    if (status != Status::success) return status;
  }
  const Stream* found = driver.streams.find(handle);
  if (found == nullptr) return Status::invalid_handle;
  stream = {found->slot, found->context, false, (found->flags & api::kStreamNonBlocking) == 0};
  return Status::success;
}

Status Submission::begin(api::Stream handle, std::uint64_t count, Stops stops) noexcept {
  for (;;) {
    Status status = find_stream(handle, stream_);
    if (status == Status::success) status = fault_of(stream_.context);
    if (status != Status::success) return status;
    const auto& blocker_count = device_state.contexts[stream_.context].blocker_count;
    if (stops == Stops::stays_behind && blocker_count.load() != 0) {
      if (!wait_for_device([&] { return blocker_count.load() == 0; })) return device_gone();
      continue;  // the stream may be gone
    }
    // Room for the waits between the default stream and the others as well.
    std::uint64_t needed = count + 1;
    if (stream_.is_legacy) {
      for_each_slot(stream_.context, [&](const StreamSlot&) { ++needed; });
    }
    if (needed > kRingSize) return Status::invalid_value;
    const StreamSlot& queue = slot();
    end_ = queue.tail.load();
    // Others may submit, and have it done, while this waits without the lock: completed may pass
    // end_.
    const auto has_room = [&] { return end_ + needed <= queue.completed.load() + kRingSize; };
    if (has_room()) break;
    if (!wait_for_device(has_room)) return device_gone();
  }
  if (!device_seems_alive()) return device_gone();
  const std::uint32_t default_slot = driver.contexts.at(stream_.context).stream_slot;
  if (stream_.is_legacy) {
    for_each_slot(stream_.context, [&](const StreamSlot& other) {
      if (other.is_blocking) add_wait(other);
    });
  } else if (stream_.is_blocking) {
    add_wait(device_state.slots[default_slot]);
  }
  return Status::success;
}

void Submission::add_wait(const StreamSlot& other) noexcept {
  const std::uint64_t end = other.tail.load();
  if (is_complete(other, end)) return;
  Op& op = add(OpKind::wait_counter);
  op.counter = const_cast<Counter*>(&other.completed);
  op.value = end;
}

Op& Submission::add(OpKind kind) noexcept {
  StreamSlot& queue = slot();
  Op& op = queue.ring[end_ % kRingSize];
  op = Op{};
  op.kind = kind;
  op.begins_submission = end_ == queue.tail.load();
  ++end_;
  return op;
}

void Submission::commit() noexcept {
  spring_fault(stream_.context);
  slot().tail.store(end_);
  ring_bell();
}

Status synchronize(StreamSlot& slot) noexcept {
  const std::uint64_t end = slot.tail.load();
  const std::uint32_t context = slot.context;
  if (!wait_for_device([&] { return is_complete(slot, end); })) return device_gone();
  return fault_of(context);
}

namespace {
bool wait_for_context(std::uint32_t context) noexcept {
  std::array<std::uint64_t, kStreamSlotMax> ends{};
  for_each_slot(context, [&](const StreamSlot& slot) {
    ends[static_cast<std::size_t>(&slot - device_state.slots.data())] = slot.tail.load();
  });
  return wait_for_device([&] {
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i] != 0 && !is_complete(device_state.slots[i], ends[i])) return false;
    }
    return true;
  });
}
}  // namespace

Status synchronize_context(std::uint32_t context) noexcept {
  if (!wait_for_context(context)) return device_gone();
  return fault_of(context);
}

Status block_while_busy(std::uint32_t context) noexcept {
  std::atomic<std::uint32_t>& blocker_count = device_state.contexts[context].blocker_count;
  blocker_count.fetch_add(1);
  const bool complete = wait_for_context(context);
  blocker_count.fetch_sub(1);
  device_state.progress.fetch_add(1);  // for launches that stay behind this call
  sys::futex_wake(device_state.progress, INT_MAX);
  return complete ? fault_of(context) : device_gone();
}

Status cuStreamCreate(api::Stream* stream, unsigned flags) {
  return enter(
      FunctionId::cuStreamCreate, Needs::healthy,
      [&] {
        if (stream == nullptr || (flags & ~kFlagsKnown) != 0) return Status::invalid_value;
        Context& context = *current_context();
        return create_stream(context, flags, *stream);
      },
      out(stream), flags);
}

Status cuStreamDestroy_v2(api::Stream stream) {
  return enter(
      FunctionId::cuStreamDestroy_v2, Needs::context,
      [&] {
        Stream* found = driver.streams.find(stream);
        if (found == nullptr) return Status::invalid_handle;
        // Returns at once; what is in the queue is still performed.
        const Status fault = fault_of(found->context);
        device_state.slots[found->slot].taken = false;
        driver.streams.remove(found);
        return fault;
      },
      stream);
}

Status cuStreamQuery(api::Stream stream) {
  return enter(
      FunctionId::cuStreamQuery, Needs::healthy,
      [&] {
        StreamRef found;
        const Status status = find_stream(stream, found);
        if (status != Status::success) return status;
        if (const Status fault = fault_of(found.context); fault != Status::success) return fault;
        const StreamSlot& slot = device_state.slots[found.slot];
        if (is_complete(slot, slot.tail.load())) return Status::success;
        return device_lives() ? Status::not_ready : device_gone();
      },
      stream);
}

Status cuStreamSynchronize(api::Stream stream) {
  return enter(
      FunctionId::cuStreamSynchronize, Needs::healthy,
      [&] {
        StreamRef found;
        const Status status = find_stream(stream, found);
        if (status != Status::success) return status;
        return synchronize(device_state.slots[found.slot]);
      },
      stream);
}

Status cuStreamGetCtx(api::Stream stream, api::Context* context) {
  return enter(
      FunctionId::cuStreamGetCtx, Needs::initialized,
      [&] {
        if (context == nullptr) return Status::invalid_value;
        StreamRef found;
        const Status status = find_stream(stream, found);
        if (status != Status::success) return status;
        if (const Status fault = fault_of(found.context); fault != Status::success) return fault;
        *context = to_handle<api::Context>(driver.contexts, &driver.contexts.at(found.context));
        return Status::success;
      },
      stream, out(context));
}

Status cuStreamGetFlags(api::Stream stream, unsigned* flags) {
  return enter(
      FunctionId::cuStreamGetFlags, Needs::healthy,
      [&] {
        if (flags == nullptr) return Status::invalid_value;
        StreamRef found;
        const Status status = find_stream(stream, found);
        if (status != Status::success) return status;
        *flags = found.is_blocking || found.is_legacy ? 0 : api::kStreamNonBlocking;
        return Status::success;
      },
      stream, out(flags));
}

}  // namespace vramlink::simcuda
