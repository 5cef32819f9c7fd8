// See local_copies.hpp.
#include "channel/local_copies.hpp"

#include <utility>

#include "base/checked.hpp"
#include "base/try.hpp"
#include "os/shared_segment.hpp"
#include "runtime/call.hpp"

namespace vramlink::inline v0::channel {
namespace {

constexpr std::uint64_t kDonePageBytes = 4096;

}  // namespace

Result<std::unique_ptr<LocalCopies>> LocalCopies::make(backend::Backend& reader, const Shape& shape,
                                                       std::shared_ptr<Parking> parking) {
  static_assert(kSlotCountMax * kStride * sizeof(std::uint64_t) <= kDonePageBytes);
  const auto total = base::checked_multiply(shape.slot_pitch, std::uint64_t{shape.slot_count});
  if (!total) return Error(Code::corrupt, "copy frames").because("the slots exceed 64 bits");
  std::unique_ptr<LocalCopies> made(new LocalCopies(reader, shape, std::move(parking)));
  made->memory_ = VRAMLINK_TRY(reader.allocate(*total));
  const os::SharedSegment segment =
      VRAMLINK_TRY(os::SharedSegment::create("vramlink-copies", kDonePageBytes));
  auto mapping = std::make_shared<os::Mapping>(VRAMLINK_TRY(segment.map(os::Access::read_write)));
  made->page_ = {mapping, mapping->data(), mapping->size_bytes()};
  made->done_ = VRAMLINK_TRY(reader.register_words({mapping->data(), mapping->size_bytes()}));
  made->queue_ = VRAMLINK_TRY(reader.make_copy_queue());
  return made;
}

LocalCopies::~LocalCopies() {
  // Unregistering would hold up whatever else the program's streams do.
  if (!parking_ || !done_) return;
  runtime::call([&] { parking_->keep({std::move(page_), {std::move(done_)}}); });
}

Result<void> LocalCopies::fill(StreamView stream, std::uint32_t slot_index,
                               const std::byte* source) {
  return reader_.copy(stream, memory_->data() + shape_.slot_pitch * slot_index, source,
                      shape_.payload_bytes);
}

Result<void> LocalCopies::start(std::uint32_t slot_index, std::uint64_t number,
                                const std::byte* source) {
  const StreamView own = stream();
  const backend::WordWrite done{{done_.get(), slot_index * kStride}, number};
  started_[slot_index].store(number, std::memory_order_relaxed);
  const Result<void> copied = fill(own, slot_index, source);
  // Also behind a copy that the driver refused, which may run all the same: until the word is there
  // the memory is kept. So a driver that fails once is asked again.
  Result<void> signalled = reader_.signal(own, {&done, 1});
  if (!signalled) signalled = reader_.signal(own, {&done, 1});
  return copied ? signalled : copied;
}

bool LocalCopies::is_idle() const noexcept {
  for (std::uint32_t i = 0; i < shape_.slot_count; ++i) {
    if (!is_done(i, started_[i].load(std::memory_order_relaxed))) return false;
  }
  return true;
}

}  // namespace vramlink::inline v0::channel
