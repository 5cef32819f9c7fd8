// See trial.hpp.
#include "backend/cuda/trial.hpp"

#include <chrono>
#include <utility>

#include "backend/cuda/handle_memory.hpp"
#include "backend/cuda/memory.hpp"
#include "base/try.hpp"
#include "os/shared_segment.hpp"

namespace vramlink::cuda {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kWord = 5;
constexpr std::chrono::seconds kWait{10};

Result<void> share_memory(const std::shared_ptr<OpenDevice>& device, wire::MemoryKind kind) {
  if (kind == wire::MemoryKind::legacy_handle) {
    static_cast<void>(VRAMLINK_TRY(HandleMemory::allocate(device, kPageBytes)));
    return {};
  }
  const auto memory = VRAMLINK_TRY(CudaMemory::allocate(device, kPageBytes));
  const auto imported = VRAMLINK_TRY(CudaImport::import(
      device, VRAMLINK_TRY(memory->export_memory()), kPageBytes, os::Access::read_only));
  return {};
}

Result<void> signal_words(const std::shared_ptr<OpenDevice>& device) {
  const os::SharedSegment segment =
      VRAMLINK_TRY(os::SharedSegment::create("vramlink-trial", kPageBytes));
  const os::Mapping page = VRAMLINK_TRY(segment.map(os::Access::read_write));
  const std::unique_ptr<backend::RegisteredWords> registered = VRAMLINK_TRY(CudaWords::make(
      device->registrations(), device->context(), {page.data(), page.size_bytes()}));
  const Driver& driver = device->driver();
  const api::DevicePointer address = address_of({registered.get(), 1});
  const api::Stream stream = device->scratch_stream();
  VRAMLINK_CHECK(
      driver.check("cuStreamWriteValue64",
                   driver.stream_write_value_64(stream, address, kWord, api::kWriteDefault)));
  VRAMLINK_CHECK(
      driver.check("cuStreamWaitValue64",
                   driver.stream_wait_value_64(stream, address, kWord, api::kWaitGreaterOrEqual)));
  if (Result<void> finished = device->finish(stream, Deadline::after(kWait)); !finished) {
    // Ends the wait by ourselves, with a value that the device may store too: the page could not be
    // unregistered before.
    registered->words()[1].store(kWord, std::memory_order_release);
    return finished;
  }
  // Pairs with the device's write.
  if (registered->words()[1].load(std::memory_order_acquire) == kWord) return {};
  return Error(Code::unsupported, "signal words")
      .because("the GPU wrote a word that the CPU does not see");
}

Error as_unsupported(const OpenDevice& device, const std::string& name, const char* what,
                     Error error) {
  if (error.code() == Code::out_of_memory || error.code() == Code::resource_exhausted) return error;
  const std::int32_t native = error.native();
  const Origin origin = error.origin();
  return Error(Code::unsupported, "open GPU")
      .about(name)
      .because("a trial to " + std::string(what) + " failed: " + to_string(error))
      .remedy("run `vramlink doctor`, or use the host")
      .device(device.id().uuid)
      .from(origin, native);
}

}  // namespace

Result<void> try_out(const std::shared_ptr<OpenDevice>& device, const std::string& name,
                     wire::MemoryKind kind) {
  if (Result<void> shared = share_memory(device, kind); !shared) {
    return as_unsupported(*device, name, "share memory", std::move(shared).error());
  }
  if (Result<void> signalled = signal_words(device); !signalled) {
    return as_unsupported(*device, name, "signal words", std::move(signalled).error());
  }
  return {};
}

}  // namespace vramlink::cuda
