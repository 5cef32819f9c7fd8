// See generation.hpp.
#include "channel/generation.hpp"

#include <string>
#include <utility>

#include <vramlink/version.hpp>

#include "base/checked.hpp"
#include "base/try.hpp"
#include "channel/slot_copies.hpp"
#include "runtime/call.hpp"
#include "runtime/end_on_janitor.hpp"
#include "wire/format_block.hpp"

namespace vramlink::inline v0::channel {
namespace {

Result<std::uint64_t> total_bytes(std::uint64_t pitch, std::uint32_t slot_count) {
  const auto total = base::checked_multiply(pitch, slot_count);
  if (total) return *total;
  return Error(Code::invalid_argument, "allocate slots")
      .because("slots of that size and number exceed 64 bits")
      .numbers(pitch, slot_count);
}

void fill(wire::Broadcast& broadcast, const Generation& made) {
  broadcast.magic = wire::kBroadcastMagic;
  broadcast.wire = kWireVersion;
  broadcast.bytes = sizeof(wire::Broadcast);
  broadcast.epoch = made.shape.epoch;
  broadcast.generation = made.shape.generation;
  broadcast.slot_count = made.shape.slot_count;
  broadcast.slot_pitch = made.slot_pitch;
  broadcast.first_sequence = made.shape.first_sequence;
  wire::encode_format(made.shape.format, broadcast.format);
}

}  // namespace

Result<void> check_slot_count(const char* operation, std::uint32_t slot_count) {
  if (slot_count >= kSlotCountMin && slot_count <= kSlotCountMax) return {};
  return Error(Code::invalid_argument, operation)
      .about("slot_count")
      .because(std::to_string(slot_count) + " is not within 2 to 64");
}

Generation::Generation(std::shared_ptr<runtime::ProcessState> owner) : process(std::move(owner)) {}

Generation::~Generation() {
  // Unregistering would hold up whatever else the program's streams do: not while its channel
  // lives.
  if (parking && capabilities.streams && ready_page) {
    // Without memory it is unregistered at once.
    runtime::call([&] {
      parking->keep({std::move(view), {std::shared_ptr(std::move(ready_page))}});
    });
  }
}

Result<std::shared_ptr<Generation>> Generation::create(
    std::shared_ptr<runtime::ProcessState> process, backend::Backend& backend, const Shape& shape,
    std::shared_ptr<Parking> parking) {
  std::shared_ptr<Generation> made =
      runtime::ends_on_janitor(process, std::make_unique<Generation>(process));
  made->shape = shape;
  made->parking = std::move(parking);
  made->backend = &backend;
  made->capabilities = backend.capabilities();
  made->device = backend.device();
  if (made->capabilities.streams) runtime::finish_before_drivers();
  const auto pitch = base::checked_round_up(shape.format.payload_bytes, wire::kSlotPitchUnitBytes);
  made->slot_pitch = pitch.value_or(0);
  if (made->slot_pitch == 0) {
    return Error(Code::invalid_argument, "allocate slots")
        .because("the payload is empty or absurd");
  }
  const std::uint64_t bytes = VRAMLINK_TRY(total_bytes(made->slot_pitch, shape.slot_count));
  made->memory = VRAMLINK_TRY(backend.allocate(bytes));

  made->segment =
      VRAMLINK_TRY(os::SharedSegment::create("vramlink-broadcast", sizeof(wire::Broadcast)));
  auto mapping =
      std::make_shared<os::Mapping>(VRAMLINK_TRY(made->segment.map(os::Access::read_write)));
  made->broadcast = &wire::broadcast_at(mapping->data());
  fill(*made->broadcast, *made);
  // Sealed after our own mapping and before anybody else has the fd: nobody can write or resize it.
  VRAMLINK_CHECK(made->segment.add_seals(os::kFullSeals));

  made->view = {mapping, mapping->data(), mapping->size_bytes()};
  process->imports().remember(VRAMLINK_TRY(made->segment.key()), made->view);
  // After the seals: a page that was punched out before would part the mapping from what a device
  // writes.
  made->ready_page = VRAMLINK_TRY(backend.register_words(
      {reinterpret_cast<std::byte*>(made->broadcast->ready), sizeof(made->broadcast->ready)}));
  made->memory_export = VRAMLINK_TRY(made->memory->export_memory());
  if (made->capabilities.inode_is_identity) {
    process->imports().remember(VRAMLINK_TRY(os::key_of(made->memory_export.get())),
                                {made->memory, made->memory->data(), bytes});
  }
  return made;
}

bool Generation::may_end() {
  if (broadcast == nullptr) return true;  // it was never complete
  bool pending = lost_work;
  for (std::uint32_t i = 0; i < shape.slot_count && !pending; ++i) {
    pending = !complete(i, awaited[i]);
  }
  // A device that failed does nothing any more.
  return !pending || !backend->check_health();
}

}  // namespace vramlink::inline v0::channel
