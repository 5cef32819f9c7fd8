// os: memfds.
#include "os/shared_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <limits>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "base/try.hpp"
#include "os/errno.hpp"
#include "os/fork_guard.hpp"
#include "os/threads.hpp"

namespace vramlink::os {
namespace {

static_assert(kSealSeal == F_SEAL_SEAL && kSealShrink == F_SEAL_SHRINK);
static_assert(kSealGrow == F_SEAL_GROW && kSealFutureWrite == F_SEAL_FUTURE_WRITE);

constexpr unsigned kNoExecSeal = 0x8;  // MFD_NOEXEC_SEAL, Linux 6.3
constexpr std::size_t kDebugNameMaxBytes = 249;
constexpr const char* kMemoryRemedy =
    "take fewer slots or a smaller format, or free memory of this host or container";

constexpr const char* kMapRemedy =
    "raise the limits of this process's address space (ulimit -v) and of its mappings "
    "(vm.max_map_count)";

struct MemoryOfHost {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
};

MemoryOfHost memory_of_host() noexcept {
  struct sysinfo info {};
  if (::sysinfo(&info) == -1) return {std::numeric_limits<std::uint64_t>::max(), 0};
  const std::uint64_t unit_bytes = info.mem_unit;
  return {(std::uint64_t{info.totalram} + info.totalswap) * unit_bytes,
          (std::uint64_t{info.freeram} + info.freeswap) * unit_bytes};
}

Result<UniqueFd> create_memfd(const char* debug_name) {
  const std::string name = std::string(debug_name).substr(0, kDebugNameMaxBytes);
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal));
  if (!fd && errno == EINVAL) {
    fd.reset(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  }
  if (!fd) return from_errno("memfd_create");
  return fd;
}

/// Gives the file its size and all of its pages.
Result<void> allocate(int fd, std::uint64_t size_bytes) {
  const MemoryOfHost memory = memory_of_host();
  if (size_bytes > memory.total_bytes) {
    // Trying would push everything else out of memory before it fails.
    return Error(Code::out_of_memory, "allocate shared segment")
        .because("this host has less memory")
        .remedy(kMemoryRemedy)
        .numbers(size_bytes, memory.total_bytes);
  }
  // A signal would make the kernel give back what it has found so far.
  const SignalsBlocked blocked;
  while (::fallocate(fd, 0, 0, static_cast<off_t>(size_bytes)) == -1) {
    if (errno == EINTR) continue;
    return from_errno("fallocate").remedy(kMemoryRemedy).numbers(size_bytes, memory.free_bytes);
  }
  return {};
}

Error corrupt_segment(std::string reason) {
  return Error(Code::corrupt, "check shared segment").because(std::move(reason));
}

Result<struct stat> status_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) == -1) return from_errno("fstat");
  return status;
}

Result<unsigned> seals_of(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals == -1) return from_errno("fcntl(F_GET_SEALS)");
  return static_cast<unsigned>(seals);
}

std::string names_of(unsigned seals) {
  std::string names;
  const auto add = [&](unsigned seal, const char* name) {
    if ((seals & seal) != 0) names += names.empty() ? name : std::string(", ") + name;
  };
  add(kSealSeal, "SEAL");
  add(kSealShrink, "SHRINK");
  add(kSealGrow, "GROW");
  add(kSealFutureWrite, "FUTURE_WRITE");
  return names;
}

Result<void> check_seals(int fd, unsigned required_seals) {
  const auto seals = seals_of(fd);
  if (!seals) return corrupt_segment("the descriptor is not a memfd");
  if (const unsigned missing = required_seals & ~*seals; missing != 0) {
    return corrupt_segment("seals are missing: " + names_of(missing))
        .numbers(required_seals, *seals);
  }
  return {};
}

Result<void> check_size(int fd, std::uint64_t expected_size_bytes, unsigned required_seals) {
  constexpr std::uint64_t kBlockBytes = 512;  // the unit of st_blocks, whatever the file system
  const struct stat status = VRAMLINK_TRY(status_of(fd));
  const auto size_bytes = static_cast<std::uint64_t>(status.st_size);
  if (size_bytes != expected_size_bytes) {
    return corrupt_segment("its size is not what the peer said")
        .numbers(expected_size_bytes, size_bytes);
  }
  // A missing page would be allocated at first touch, and end us with SIGBUS if there is no memory.
  // Without the seal a page could vanish after this look, so looking would prove nothing.
  const auto allocated_bytes = static_cast<std::uint64_t>(status.st_blocks) * kBlockBytes;
  if ((required_seals & kSealFutureWrite) != 0 && allocated_bytes < size_bytes) {
    return corrupt_segment("pages are missing").numbers(size_bytes, allocated_bytes);
  }
  return {};
}

}  // namespace

void MappingTraits::close(MappedRange range) noexcept {
  if (range.inherit == Inherit::no && in_forked_child()) return;
  ::munmap(range.data, range.size_bytes);
}

Result<SharedSegment> SharedSegment::create(const char* debug_name, std::uint64_t size_bytes) {
  if (size_bytes == 0 || size_bytes > std::numeric_limits<off_t>::max()) {
    return Error(Code::invalid_argument, "create shared segment")
        .because("the size is 0 or too large for a file")
        .numbers(size_bytes, std::numeric_limits<off_t>::max());
  }
  UniqueFd fd = VRAMLINK_TRY(create_memfd(debug_name));
  VRAMLINK_CHECK(allocate(fd.get(), size_bytes));
  return SharedSegment(std::move(fd), size_bytes);
}

Result<SharedSegment> SharedSegment::adopt(UniqueFd fd, std::uint64_t expected_size_bytes,
                                           std::uint64_t size_max_bytes, unsigned required_seals) {
  VRAMLINK_ASSERT(required_seals == 0 || (required_seals & kSealShrink) != 0);
  if (!fd) {
    return Error(Code::invalid_argument, "adopt shared segment").because("there is no descriptor");
  }
  if (expected_size_bytes == 0 || expected_size_bytes > size_max_bytes) {
    return corrupt_segment("the size that the peer said is 0 or beyond the limit")
        .numbers(expected_size_bytes, size_max_bytes);
  }
  VRAMLINK_CHECK(check_seals(fd.get(), required_seals));
  VRAMLINK_CHECK(check_size(fd.get(), expected_size_bytes, required_seals));
  return SharedSegment(std::move(fd), expected_size_bytes);
}

Result<void> SharedSegment::verify_seals(unsigned required_seals) const {
  VRAMLINK_ASSERT((required_seals & kSealShrink) != 0);
  // Seals first: the size that is read after them cannot change any more.
  VRAMLINK_CHECK(check_seals(fd_.get(), required_seals));
  return check_size(fd_.get(), size_bytes_, required_seals);
}

Result<void> SharedSegment::add_seals(unsigned seals) const {
  if (::fcntl(fd_.get(), F_ADD_SEALS, seals) == -1) return from_errno("fcntl(F_ADD_SEALS)");
  return {};
}

Result<unsigned> SharedSegment::seals() const { return seals_of(fd_.get()); }

Result<Mapping> SharedSegment::map(Access access, Inherit inherit) const {
  VRAMLINK_CHECK(require_not_forked("map shared segment"));
  const int protection = access == Access::read_only ? PROT_READ : PROT_READ | PROT_WRITE;
  void* address = ::mmap(nullptr, size_bytes_, protection, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) {
    return from_errno("mmap").remedy(kMapRemedy).numbers(size_bytes_, 0);
  }
  Mapping mapping(MappedRange{static_cast<std::byte*>(address),
                              static_cast<std::size_t>(size_bytes_), inherit});
  if (inherit == Inherit::no && ::madvise(address, size_bytes_, MADV_DONTFORK) == -1) {
    return from_errno("madvise(MADV_DONTFORK)");
  }
  return mapping;
}

Result<SegmentKey> key_of(int fd) {
  const struct stat status = VRAMLINK_TRY(status_of(fd));
  return SegmentKey{status.st_dev, status.st_ino};
}

Result<SegmentKey> SharedSegment::key() const { return key_of(fd_.get()); }

}  // namespace vramlink::os
