// Events: a record is a mark in a queue, and its position there says whether it is complete.
#include "streams.hpp"

namespace vramlink::simcuda {
namespace {

constexpr unsigned kBlockingSync = 1;
constexpr unsigned kInterprocess = 4;

/// success, not_ready, or the fault of the context that it was recorded in.
Status state_of(const Event& event) noexcept {
  const std::uint32_t context = event.counter == nullptr ? event.context : event.recorded_context;
  if (const Status fault = fault_of(context); fault != Status::success) return fault;
  if (event.counter == nullptr || event.counter->load() >= event.value) return Status::success;
  return Status::not_ready;
}

}  // namespace

Status cuEventCreate(api::Event* event, unsigned flags) {
  return enter(
      FunctionId::cuEventCreate, Needs::healthy,
      [&] {
        if (event == nullptr || (flags & ~(kBlockingSync | api::kEventDisableTiming)) != 0) {
          return (flags & kInterprocess) != 0 ? Status::not_supported : Status::invalid_value;
        }
        Event* made = driver.events.add();
        if (made == nullptr) return Status::out_of_memory;
        made->context = index_of(*current_context());
        made->flags = flags;
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
        driver.events.remove(found);
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
        found->counter = &submission.slot().completed;
        found->value = submission.end();
        found->recorded_context = submission.stream().context;
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
        const Status state = state_of(*found);
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
        const Event recorded = *found;  // later records do not count
        if (!wait_for_device([&] { return state_of(recorded) != Status::not_ready; })) {
          return Status::device_unavailable;
        }
        return state_of(recorded);
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
          if (const Status state = state_of(*event); state != Status::success) return state;
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
        if (found->counter != nullptr) {  // never recorded: complete
          Op& op = submission.add(OpKind::wait_counter);
          op.counter = const_cast<Counter*>(found->counter);
          op.value = found->value;
        }
        submission.commit();
        return Status::success;
      },
      stream, event, flags);
}

}  // namespace vramlink::simcuda
