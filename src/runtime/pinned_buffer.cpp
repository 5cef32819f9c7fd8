// The public PinnedBuffer: pages of a memfd, so that no fork parts them from the device, registered
// with the back end.
#include <utility>

#include <vramlink/host_copy.hpp>

#include "base/checked.hpp"
#include "base/try.hpp"
#include "os/fork_guard.hpp"
#include "os/shared_segment.hpp"
#include "runtime/end_on_janitor.hpp"
#include "runtime/runtime_state.hpp"

namespace vramlink::inline v0 {
namespace {
constexpr std::uint64_t kPageBytes = 4096;
}  // namespace

/// Ends on the janitor: unregistering may block.
struct PinnedBuffer::State {
  os::Mapping mapping;
  std::unique_ptr<backend::RegisteredWords> registered;  // dies before what it registers
};

PinnedBuffer::PinnedBuffer(std::shared_ptr<State> state, std::span<std::byte> bytes) noexcept
    : state_(std::move(state)), bytes_(bytes) {}
PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : state_(std::move(other.state_)), bytes_(std::exchange(other.bytes_, {})) {}
PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  if (this == &other) return *this;
  state_ = std::move(other.state_);
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}
PinnedBuffer::~PinnedBuffer() = default;

Result<PinnedBuffer> PinnedBuffer::allocate(const Runtime& runtime, const DeviceId& device,
                                            std::uint64_t size_bytes) {
  VRAMLINK_CHECK(os::require_not_forked("allocate pinned memory"));
  const std::shared_ptr<runtime::ProcessState>& process = runtime.state()->process();
  backend::Backend* backend = VRAMLINK_TRY(process->backends().find_any(device));
  const std::uint64_t mapped_bytes =
      base::checked_round_up(size_bytes, kPageBytes).value_or(size_bytes);
  const os::SharedSegment segment =
      VRAMLINK_TRY(os::SharedSegment::create("vramlink-pinned", mapped_bytes));
  auto state = std::make_unique<State>();
  state->mapping = VRAMLINK_TRY(segment.map(os::Access::read_write, os::Inherit::yes));
  const std::span<std::byte> pages(state->mapping.data(), state->mapping.size_bytes());
  state->registered = VRAMLINK_TRY(backend->register_words(pages));
  return PinnedBuffer(runtime::ends_on_janitor(process, std::move(state)),
                      pages.first(static_cast<std::size_t>(size_bytes)));
}

}  // namespace vramlink::inline v0
