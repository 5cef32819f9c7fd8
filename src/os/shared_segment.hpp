// Shared host memory: a memfd, its seals and its mappings.
//
// | handle        | closed by | depends on                                      |
// |---------------|-----------|-------------------------------------------------|
// | SharedSegment | close     | nothing                                         |
// | Mapping       | munmap    | nothing: it outlives the segment it was made of |
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include <vramlink/result.hpp>

#include "base/unique_handle.hpp"
#include "os/fd.hpp"

namespace vramlink::os {

enum class Access : std::uint8_t { read_only, read_write };

/// Whether a forked child keeps a mapping. Control segments are never inherited.
enum class Inherit : std::uint8_t { no, yes };

// The values of F_SEAL_*, which are kernel ABI; the .cpp compares them.
inline constexpr unsigned kSealSeal = 0x1;          ///< no more seals
inline constexpr unsigned kSealShrink = 0x2;        ///< the size does not shrink: no SIGBUS
inline constexpr unsigned kSealGrow = 0x4;          ///< the size does not grow
inline constexpr unsigned kSealFutureWrite = 0x10;  ///< no new writable mapping, no hole punched
inline constexpr unsigned kFullSeals = kSealSeal | kSealShrink | kSealGrow | kSealFutureWrite;

struct MappedRange {
  std::byte* data = nullptr;
  std::size_t size_bytes = 0;
  Inherit inherit = Inherit::no;

  friend bool operator==(const MappedRange&, const MappedRange&) noexcept = default;
};

struct MappingTraits {
  using Raw = MappedRange;
  static constexpr MappedRange kEmpty{};
  static void close(MappedRange range) noexcept;
};

/// Owns one mapping of a whole segment. Its destructor unmaps, except in a forked child for a range
/// that the child did not inherit: something else may lie there now.
class Mapping {
 public:
  Mapping() noexcept = default;
  explicit Mapping(MappedRange range) noexcept : range_(range) {}

  [[nodiscard]] std::byte* data() const noexcept { return range_.get().data; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return range_.get().size_bytes; }
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(range_); }

 private:
  base::UniqueHandle<MappingTraits> range_;
};

/// Identity of a segment among all memfds that exist in this boot. May be used again once nobody
/// holds the segment.
struct SegmentKey {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;

  friend auto operator<=>(const SegmentKey&, const SegmentKey&) noexcept = default;
};

/// The identity of the file behind a descriptor. `os` if `fd` is not open.
[[nodiscard]] Result<SegmentKey> key_of(int fd);

/// A memfd of a fixed size. What is mapped of it never raises SIGBUS: our own segments are
/// allocated in full when they are created, and a peer's segment is used only after its seals were
/// checked. Thread-safety: const members from any thread.
class SharedSegment {
 public:
  /// Owns nothing; only assignment and destruction are useful.
  SharedSegment() noexcept = default;

  /// A new segment of zero bytes, without seals but the one that forbids execution (where the
  /// kernel has it). `debug_name` is shown in /proc/PID/maps and cut where too long. Blocks while
  /// the kernel finds the pages. `invalid_argument` for a size of 0 or beyond off_t;
  /// `out_of_memory` or `resource_exhausted` with the numbers (wanted, present) bytes.
  [[nodiscard]] static Result<SharedSegment> create(const char* debug_name,
                                                    std::uint64_t size_bytes);

  /// Takes a descriptor that a peer sent. `corrupt`, with the reason, unless it is a memfd of
  /// exactly `expected_size_bytes`, which is at most `size_max_bytes`, with `required_seals` set.
  ///
  /// `required_seals` contains kSealShrink, or is 0 for a segment that its owner seals only after
  /// we mapped it: then the mapping must not be touched before verify_seals() succeeded.
  [[nodiscard]] static Result<SharedSegment> adopt(UniqueFd fd, std::uint64_t expected_size_bytes,
                                                   std::uint64_t size_max_bytes,
                                                   unsigned required_seals);

  /// Looks at seals and size again: `corrupt` unless `required_seals` (kSealShrink among them) are
  /// set, the size is the one known, and, where kSealFutureWrite is required, every page exists.
  [[nodiscard]] Result<void> verify_seals(unsigned required_seals) const;

  /// Adds seals; they never go away. `permission_denied` after kSealSeal.
  [[nodiscard]] Result<void> add_seals(unsigned seals) const;

  /// All seals that are set, also those without a name here.
  [[nodiscard]] Result<unsigned> seals() const;

  /// Maps the whole segment, shared. `permission_denied` for Access::read_write after
  /// kSealFutureWrite or on a read-only descriptor; `wrong_state` in a forked child.
  [[nodiscard]] Result<Mapping> map(Access access, Inherit inherit = Inherit::no) const;

  /// Borrowed; for sending.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  [[nodiscard]] Result<SegmentKey> key() const;
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

 private:
  SharedSegment(UniqueFd fd, std::uint64_t size_bytes) noexcept
      : fd_(std::move(fd)), size_bytes_(size_bytes) {}

  UniqueFd fd_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace vramlink::os
