// The seam between the features and the memory they share: allocate, export, import, copy, fence.
//
// | handle         | closed by        | depends on                                    |
// |----------------|------------------|-----------------------------------------------|
// | Memory         | its destructor   | the Backend                                   |
// | ImportedMemory | its destructor   | the Backend; not on the exporter's life       |
// | RegisteredWords| its destructor   | the mapping, which must outlive it            |
// | CopyQueue      | its destructor   | the Backend; every SlotCopy must die before   |
//
// All of these destructors may call a driver, and some block while any stream of the device waits
// for a peer: they run on the janitor's thread or on one of the user's, never on the reactor's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <vramlink/device.hpp>
#include <vramlink/result.hpp>
#include <vramlink/stream.hpp>

#include "os/fd.hpp"
#include "os/shared_segment.hpp"
#include "wire/messages.hpp"

namespace vramlink::backend {

/// What one allocation may have at most.
inline constexpr std::uint64_t kMemoryBytesMax = wire::kPayloadBytesMax;

/// Read once; what is false here is never tried.
struct Capabilities {
  wire::MemoryKind memory_kind = wire::MemoryKind::memfd;  ///< what an exported fd is
  bool cpu_access = false;  ///< payload addresses can be read and written by the CPU
  bool streams = false;     ///< work can be ordered behind a device's stream
  /// Exports of one memory, and of no other, share an inode: imports can be found again by it.
  bool inode_is_identity = false;
};

/// Memory that this process owns and others may import. Keeps the physical memory until the last
/// importer lets go as well.
class Memory {
 public:
  virtual ~Memory() = default;
  [[nodiscard]] virtual std::byte* data() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t size_bytes() const noexcept = 0;
  /// An fd that stands for the memory, valid in whichever process receives it. With
  /// MemoryKind::legacy_handle it dies with this process. Codes: os, driver.
  [[nodiscard]] virtual Result<os::UniqueFd> export_memory() const = 0;
};

/// Another process's memory in our address space.
class ImportedMemory {
 public:
  virtual ~ImportedMemory() = default;
  [[nodiscard]] virtual std::byte* data() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t size_bytes() const noexcept = 0;
};

/// Shared pages of a mapping that device streams may write and wait for while this lives.
class RegisteredWords {
 public:
  virtual ~RegisteredWords() = default;
  /// The words as the CPU sees them; `size_bytes / 8` of them.
  [[nodiscard]] virtual std::span<std::atomic<std::uint64_t>> words() const noexcept = 0;
};

/// One word of a registered page.
struct WordRef {
  const RegisteredWords* page;
  std::uint32_t index;  ///< in words(), so byte offset / 8
};

/// One 64-bit store of a batch.
struct WordWrite {
  WordRef word;
  std::uint64_t value;
};

/// A copy into one fixed place followed by stores to fixed words, made ready to be submitted again
/// and again with other sources and values.
class SlotCopy {
 public:
  virtual ~SlotCopy() = default;
};

/// A stream of our own on which copies into slots run, in order.
/// Thread-safety: all members from any thread, but one SlotCopy from one thread at a time.
class CopyQueue {
 public:
  virtual ~CopyQueue() = default;
  /// The stream itself, for work that is to follow its copies and for copies to host memory:
  /// Backend::copy, signal and order take it. Valid while the queue is.
  [[nodiscard]] virtual StreamView stream() const noexcept = 0;
  /// Allocates: not in steady state. The number of words is fixed for its life.
  /// Codes: driver, out_of_memory.
  [[nodiscard]] virtual Result<std::unique_ptr<SlotCopy>> prepare(
      std::byte* target, std::uint64_t size_bytes, std::span<const WordRef> words) = 0;
  /// As one submission: waits for all work that is in `source_stream` now, copies `source` (as many
  /// bytes as prepared), then stores values[i] to words[i] in order. Never blocks. Ordinary host
  /// memory needs an already complete stream, and its bytes are taken during the call.
  /// Codes: driver, out_of_memory, resource_exhausted, wrong_state (a stream of another device),
  /// invalid_argument (the source is not memory that can be copied from; the error names what it
  /// is).
  [[nodiscard]] virtual Result<void> submit(SlotCopy& copy, StreamView source_stream,
                                            const std::byte* source,
                                            std::span<const std::uint64_t> values) = 0;
  /// The same by single calls, for words that nothing was prepared for. Codes: as submit.
  [[nodiscard]] virtual Result<void> submit_once(StreamView source_stream, std::byte* target,
                                                 const std::byte* source, std::uint64_t size_bytes,
                                                 std::span<const WordWrite> writes) = 0;
};

/// One kind of memory on one device. Thread-safety: all members from any thread but the reactor,
/// which calls none of them. Nothing blocks on device work unless it says so.
class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual DeviceId device() const noexcept = 0;
  [[nodiscard]] virtual const Capabilities& capabilities() const noexcept = 0;

  /// Zeroed memory aligned to 4096 bytes at least. Codes: out_of_memory, resource_exhausted, os,
  /// driver, invalid_argument (0 bytes).
  [[nodiscard]] virtual Result<std::unique_ptr<Memory>> allocate(std::uint64_t size_bytes) = 0;
  /// Maps a peer's export of this back end's kind for use by this device, which may be another than
  /// the one that the memory lives on. With MemoryKind::legacy_handle it is the memory's own
  /// device, not the process that exports it, and the mapping can be written whatever `access`
  /// says. A size other than the memory's is corrupt, never a later fault; GPU memory knows its
  /// size only as rounded up to its unit.
  /// Codes: corrupt, unsupported (this device cannot reach the memory), os, driver, out_of_memory.
  [[nodiscard]] virtual Result<std::unique_ptr<ImportedMemory>> import_memory(
      os::UniqueFd fd, std::uint64_t size_bytes, os::Access access) = 0;
  /// Makes mapped pages usable by streams; whole pages of 4096 bytes. Writable mappings only. The
  /// same pages may be registered several times: by a publisher and a subscriber of one process.
  /// Codes: driver, resource_exhausted.
  [[nodiscard]] virtual Result<std::unique_ptr<RegisteredWords>> register_words(
      std::span<std::byte> pages) = 0;

  /// Stores the words in the given order, each with release, after all work that is in `stream`
  /// already: one submission. Codes: driver, out_of_memory (of the driver), wrong_state (a stream
  /// of another device).
  [[nodiscard]] virtual Result<void> signal(StreamView stream,
                                            std::span<const WordWrite> writes) = 0;
  /// Work put into `stream` from now on starts when word >= value; the comparison is cyclic, so
  /// only a value near the awaited one may be stored to end the wait. An already complete stream
  /// is refused: nothing may block without a deadline. Codes: as signal.
  [[nodiscard]] virtual Result<void> wait(StreamView stream, WordRef word, std::uint64_t value) = 0;
  /// Copies after all work that is in `stream` already. With an already complete stream the copy is
  /// complete on return, which waits for it. Ordinary host memory, not registered with a driver,
  /// can be copied only so. A source on another device that this one cannot reach is copied as the
  /// driver does it, through host memory. Codes: as signal, timed_out, invalid_argument (not memory
  /// that can be copied from or to; the error names what it is).
  [[nodiscard]] virtual Result<void> copy(StreamView stream, std::byte* target,
                                          const std::byte* source, std::uint64_t size_bytes) = 0;
  /// Work put into `later` from now on starts after all work that is in `earlier` now.
  /// Codes: as signal.
  [[nodiscard]] virtual Result<void> order(StreamView earlier, StreamView later) = 0;
  /// Whether `stream` can be used with this device. Cheap. Codes: as signal.
  [[nodiscard]] virtual Result<void> check_stream(StreamView stream) = 0;
  /// Codes: driver, out_of_memory.
  [[nodiscard]] virtual Result<std::unique_ptr<CopyQueue>> make_copy_queue() = 0;
  /// Whether the device still performs work for this process: after a fault submissions succeed and
  /// do nothing. Never blocks. Codes: driver (the fault).
  [[nodiscard]] virtual Result<void> check_health() = 0;
};

}  // namespace vramlink::backend
