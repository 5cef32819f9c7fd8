// See slot_copies.hpp.
#include "channel/slot_copies.hpp"

#include <utility>

#include "base/steps.hpp"
#include "base/try.hpp"

namespace vramlink::inline v0::channel {

SlotCopies::SlotCopies(const Generation& generation, std::unique_ptr<backend::CopyQueue> queue)
    : generation_(generation), queue_(std::move(queue)) {}

Result<std::unique_ptr<SlotCopies>> SlotCopies::make(const Generation& generation) {
  std::unique_ptr<backend::CopyQueue> queue = VRAMLINK_TRY(generation.backend->make_copy_queue());
  return std::unique_ptr<SlotCopies>(new SlotCopies(generation, std::move(queue)));
}

SlotCopies::Outcome SlotCopies::submit(std::uint32_t slot_index,
                                       std::span<const backend::WordWrite> ready, std::uint64_t set,
                                       StreamView source_stream, const std::byte* source) {
  std::shared_ptr<const Plan> plan;
  {
    const std::lock_guard lock(mutex_);
    if (plan_ && plan_->set == set) plan = plan_;
  }
  VRAMLINK_STEP("copy.before_submit");
  Outcome outcome;
  if (plan) {
    std::array<std::uint64_t, wire::kStreamOrderedCountMax + 1> values;
    for (std::size_t i = 0; i < ready.size(); ++i) values[i] = ready[i].value;
    outcome.submitted = queue_->submit(*plan->copies[slot_index], source_stream, source,
                                       {values.data(), ready.size()});
  } else {
    outcome.unprepared = true;
    outcome.submitted = queue_->submit_once(source_stream, generation_.slot_data(slot_index),
                                            source, generation_.shape.format.payload_bytes, ready);
  }
  // What the arguments are refused for is seen before anything runs; what the driver says, under
  // whichever code, may come when some of it runs already.
  if (!outcome.submitted && outcome.submitted.error().origin() == Origin::driver) {
    outcome.behind = queue_->stream();
  }
  VRAMLINK_STEP("copy.submitted");
  return outcome;
}

Result<SlotCopies*> copies_of(Generation& generation) {
  if (SlotCopies* const made = generation.copies.load(std::memory_order_acquire)) return made;
  const std::lock_guard lock(generation.copies_mutex);
  if (!generation.copies_owner) {
    generation.copies_owner = VRAMLINK_TRY(SlotCopies::make(generation));
    generation.copies.store(generation.copies_owner.get(), std::memory_order_release);
  }
  return generation.copies_owner.get();
}

Result<void> SlotCopies::prepare(const Membership& members) {
  auto plan = std::make_shared<Plan>();
  plan->set = members.stream_set;
  for (std::uint32_t i = 0; i < generation_.shape.slot_count; ++i) {
    std::array<backend::WordRef, wire::kStreamOrderedCountMax + 1> words;
    std::size_t count = 0;
    const ReadyWords ready(generation_, members, i, 0);
    for (const backend::WordWrite& write : ready.writes()) {
      words[count++] = write.word;
    }
    plan->copies.push_back(VRAMLINK_TRY(queue_->prepare(
        generation_.slot_data(i), generation_.shape.format.payload_bytes, {words.data(), count})));
  }
  std::shared_ptr<const Plan> old;  // ends outside the lock: it calls the driver
  const std::lock_guard lock(mutex_);
  old = std::exchange(plan_, std::move(plan));
  return {};
}

}  // namespace vramlink::inline v0::channel
