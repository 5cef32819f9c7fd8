#include "budget.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sys.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::uint32_t kEntryMax = 4096;
/// An entry's word: device number (4 bits), pages (32 bits), a count of its uses (28 bits).
constexpr int kDeviceShift = 60;
constexpr int kPagesShift = 28;
constexpr std::uint64_t kUsesMask = (std::uint64_t{1} << kPagesShift) - 1;
constexpr std::uint64_t kPagesMask = UINT32_MAX;
constexpr std::uint64_t kSizeBytesMax = kPagesMask * kPageBytes;

using Word = std::atomic<std::uint64_t>;

int account_fd = -1;
Word* account = nullptr;
std::array<char, PATH_MAX> folder_path{};
unsigned file_mode = 0600;
/// How often this process holds each entry: imports of one memory share the lock.
std::array<std::uint32_t, kEntryMax> held{};

[[noreturn]] void give_up(const char* path, const char* what) noexcept {
  std::fprintf(stderr, "simcuda: cannot %s %s: %s; set VRAMLINK_SIMCUDA_DIR to a folder of yours\n",
               what, path, std::strerror(errno));
  std::abort();
}

}  // namespace

void open_account_file() noexcept {
  std::array<char, 512> path{};
  const char* folder = std::getenv("VRAMLINK_SIMCUDA_DIR");
  std::array<char, 64> otherwise{};
  if (folder == nullptr || *folder == 0) {
    std::snprintf(otherwise.data(), otherwise.size(), "/tmp/vramlink-simcuda-%u", ::geteuid());
    folder = otherwise.data();
    if (::mkdir(folder, 0700) != 0 && errno != EEXIST) give_up(folder, "make");
  }
  std::snprintf(path.data(), path.size(), "%s/account", folder);
  const int fd = ::open(path.data(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) give_up(path.data(), "open");
  // Who may use the folder may use the account.
  struct stat status {};
  if (::realpath(folder, folder_path.data()) == nullptr || ::stat(folder, &status) != 0) {
    give_up(folder, "find");
  }
  file_mode = 0600 | (status.st_mode & 0066);
  (void)!::fchmod(fd, file_mode);  // another user's has the mode already
  // Growing it twice does no harm.
  if (::ftruncate(fd, kEntryMax * sizeof(Word)) != 0) give_up(path.data(), "size");
  const long mapping =
      sys::call(SYS_mmap, 0, kEntryMax * sizeof(Word), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (sys::failed(mapping)) give_up(path.data(), "map");
  account_fd = fd;
  account = reinterpret_cast<Word*>(mapping);
}

const char* account_folder() noexcept { return folder_path.data(); }
unsigned account_file_mode() noexcept { return file_mode; }

namespace {

bool set_lock(std::uint32_t index, short type) noexcept {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = index;
  lock.l_len = 1;
  return sys::call(SYS_fcntl, account_fd, F_OFD_SETLK, sys::arg(&lock)) == 0;
}

/// Whether any process holds the entry, this one included.
bool is_held(std::uint32_t index) noexcept {
  if (held[index] != 0) return true;
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = index;
  lock.l_len = 1;
  return sys::call(SYS_fcntl, account_fd, F_OFD_GETLK, sys::arg(&lock)) == 0 &&
         lock.l_type != F_UNLCK;
}

std::uint64_t bytes_of(std::uint64_t word) noexcept {
  return (word >> kPagesShift & kPagesMask) * kPageBytes;
}

}  // namespace

std::uint64_t bytes_held(int device_number) noexcept {
  std::uint64_t sum_bytes = 0;
  for (std::uint32_t i = 0; i < kEntryMax; ++i) {
    std::uint64_t word = account[i].load();
    if (bytes_of(word) == 0 || word >> kDeviceShift != static_cast<std::uint64_t>(device_number)) {
      continue;
    }
    if (is_held(i)) {
      sum_bytes += bytes_of(word);
    } else {
      // Its holders died. Fails, rightly, if somebody took the entry over meanwhile.
      account[i].compare_exchange_strong(word, word & kUsesMask);
    }
  }
  return sum_bytes;
}

bool open_account(int device_number, std::uint64_t size_bytes, std::uint64_t limit_bytes,
                  AccountEntry& entry) noexcept {
  // Before it is counted: an entry has room for so many pages, and what stands behind them is the
  // number of the device.
  if (size_bytes > limit_bytes || size_bytes > kSizeBytesMax) return false;
  for (std::uint32_t i = 0; i < kEntryMax; ++i) {
    // Alone on the byte, or somebody holds it.
    if (held[i] != 0 || !set_lock(i, F_WRLCK)) continue;
    const std::uint64_t uses = (account[i].load() + 1) & kUsesMask;
    const std::uint64_t word = static_cast<std::uint64_t>(device_number) << kDeviceShift |
                               (size_bytes + kPageBytes - 1) / kPageBytes << kPagesShift | uses;
    account[i].store(word);
    set_lock(i, F_RDLCK);
    ++held[i];
    entry = {i, word};
    // Counted first, then summed: of two that race for the last bytes none may get too many.
    if (bytes_held(device_number) <= limit_bytes) return true;
    leave_account(i);
    return false;
  }
  return false;
}

bool join_account(const AccountEntry& entry) noexcept {
  if (entry.index >= kEntryMax) return false;
  if (held[entry.index] == 0 && !set_lock(entry.index, F_RDLCK)) return false;
  if (account[entry.index].load() != entry.tag) {
    if (held[entry.index] == 0) set_lock(entry.index, F_UNLCK);
    return false;
  }
  ++held[entry.index];
  return true;
}

AccountEntry account_entry(std::uint32_t index) noexcept { return {index, account[index].load()}; }

bool is_account_held(std::uint32_t index) noexcept { return is_held(index); }

void leave_account(std::uint32_t index) noexcept {
  if (--held[index] == 0) set_lock(index, F_UNLCK);
}

}  // namespace vramlink::simcuda
