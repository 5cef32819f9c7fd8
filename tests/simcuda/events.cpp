// Events: a record is a mark in a queue, and its position there says whether it is complete.
#include "ipc_events.hpp"
#include "streams.hpp"

namespace vramlink::simcuda {
namespace {

constexpr unsigned kBlockingSync = 1;
constexpr unsigned kFlagsKnown = kBlockingSync | api::kEventDisableTiming | kEventInterprocess;
/// How often a thread looks whether another process's device has done something.
constexpr std::uint64_t kSharedLookNs = 200'000;

/// success, not_ready, or the fault of the context that it was recorded in.
Status state_of(const Event& event, const Record& record) noexcept {
  const std::uint32_t context = record.counter == nullptr ? event.context : record.context;
  if (const Status fault = fault_of(context); fault != Status::success) return fault;
  if (record.counter == nullptr || record.counter->load() >= record.value) return Status::success;
  return Status::not_ready;
}

}  // namespace

Status cuEventCreate(api::Event* event, unsigned flags) {
  return enter(
      FunctionId::cuEventCreate, Needs::healthy,
      [&] {
        const bool is_shared = (flags & kEventInterprocess) != 0;
        if (event == nullptr || (flags & ~kFlagsKnown) != 0 ||
            (is_shared && (flags & api::kEventDisableTiming) == 0)) {
          return Status::invalid_value;
        }
        Event* made = driver.events.add();
        if (made == nullptr) return Status::out_of_memory;
        made->context = index_of(*current_context());
        made->flags = flags;
        if (is_shared) {
          if (const Status status = share_event(*made); status != Status::success) {
            driver.events.remove(made);
            return status;
          }
        }
        *event = to_handle<api::Event>(driver.events, made);
        return Status::success;
      },
      out(event), flags);
}

Status cuEventDestroy_v2(api::Event event) {
  return enter(
      FunctionId::cuEventDestroy_v2, Needs::context,
      [&] {
        Event* found = driver.events.find(event);
        if (found == nullptr) return Status::invalid_handle;
        const Status fault = fault_of(found->context);
        drop_event(*found);
        return fault;
      },
      event);
}

Status cuEventRecord(api::Event event, api::Stream stream) {
  return enter(
      FunctionId::cuEventRecord, Needs::healthy,
      [&] {
        if (driver.events.find(event) == nullptr) return Status::invalid_handle;
        Submission submission;
        const Status status = submission.begin(stream, 1, Stops::stays_behind);
        if (status != Status::success) return status;
        // Found anew: begin() may have waited without the lock.
        Event* found = driver.events.find(event);
        if (found == nullptr || found->context != submission.stream().context) {
          return Status::invalid_handle;
        }
        Op& op = submission.add(OpKind::mark);
        if ((found->flags & api::kEventDisableTiming) == 0) {
          op.time_ns = &event_words[driver.events.index_of(found)].time_ns;
        }
        if (found->shared != nullptr) {
          const Record record = next_record(*found->shared);
          op.counter = const_cast<Counter*>(record.counter);
          op.value = record.value;
        } else {
          found->counter = &submission.slot().completed;
          found->value = submission.end();
          found->recorded_context = submission.stream().context;
        }
        submission.commit();
        return Status::success;
      },
      event, stream);
}

Status cuEventQuery(api::Event event) {
  return enter(
      FunctionId::cuEventQuery, Needs::healthy,
      [&] {
        const Event* found = driver.events.find(event);
        if (found == nullptr) return Status::invalid_handle;
        const Status state = state_of(*found, last_record(*found));
        if (state == Status::not_ready && !device_lives()) return Status::device_unavailable;
        return state;
      },
      event);
}

Status cuEventSynchronize(api::Event event) {
  return enter(
      FunctionId::cuEventSynchronize, Needs::healthy,
      [&] {
        const Event* found = driver.events.find(event);
        if (found == nullptr) return Status::invalid_handle;
        // Later records do not count.
        const Event event_then = *found;
        const Record record = last_record(event_then);
        const auto state = [&] { return state_of(event_then, record); };
        const std::uint64_t look_ns = found->shared != nullptr ? kSharedLookNs : kLookNs;
        if (!wait_for_device([&] { return state() != Status::not_ready; }, look_ns)) {
          return Status::device_unavailable;
        }
        return state();
      },
      event);
}

Status cuEventElapsedTime(float* milliseconds, api::Event start, api::Event end) {
  return enter(
      FunctionId::cuEventElapsedTime, Needs::healthy,
      [&] {
        if (milliseconds == nullptr) return Status::invalid_value;
        const Event* first = driver.events.find(start);
        const Event* last = driver.events.find(end);
        for (const Event* event : {first, last}) {
          if (event == nullptr || event->counter == nullptr ||
              (event->flags & api::kEventDisableTiming) != 0) {
            return Status::invalid_handle;
          }
          const Status state = state_of(*event, last_record(*event));
          if (state != Status::success) return state;
        }
        const std::uint64_t from_ns = event_words[driver.events.index_of(first)].time_ns.load();
        const std::uint64_t to_ns = event_words[driver.events.index_of(last)].time_ns.load();
        *milliseconds = static_cast<float>(
            static_cast<double>(static_cast<std::int64_t>(to_ns - from_ns)) * 1e-6);
        return Status::success;
      },
      out(milliseconds), start, end);
}

Status cuStreamWaitEvent(api::Stream stream, api::Event event, unsigned flags) {
  return enter(
      FunctionId::cuStreamWaitEvent, Needs::healthy,
      [&] {
        if (flags > 1) return Status::invalid_value;
        if (driver.events.find(event) == nullptr) return Status::invalid_handle;
        Submission submission;
        const Status status = submission.begin(stream, 1, Stops::passes);
        if (status != Status::success) return status;
        const Event* found = driver.events.find(event);
        if (found == nullptr) return Status::invalid_handle;
        const Record record = last_record(*found);
        if (record.counter != nullptr) {  // never recorded: complete
          Op& op = submission.add(OpKind::wait_counter);
          op.counter = const_cast<Counter*>(record.counter);
          op.value = record.value;
        }
        submission.commit();
        return Status::success;
      },
      stream, event, flags);
}

}  // namespace vramlink::simcuda
