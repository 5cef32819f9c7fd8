#include "host_maps.hpp"

#include <fcntl.h>

#include <array>

#include "sys.hpp"

namespace vramlink::simcuda {
namespace {

/// Reads /proc/self/maps line by line, without an allocation.
class MapsReader {
 public:
  MapsReader() noexcept
      : fd_(sys::call(SYS_openat, AT_FDCWD, sys::arg("/proc/self/maps"), O_RDONLY | O_CLOEXEC)) {}
  MapsReader(const MapsReader&) = delete;
  MapsReader& operator=(const MapsReader&) = delete;
  ~MapsReader() {
    if (fd_ >= 0) sys::call(SYS_close, fd_);
  }

  struct Line {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    bool readable = false;
    bool writable = false;
    bool shared = false;
  };

  /// begin-end rwxp ...; false at the end.
  bool next(Line& line) noexcept {
    line = {};
    if (!read_number(line.begin, '-') || !read_number(line.end, ' ')) return false;
    line.readable = get() == 'r';
    line.writable = get() == 'w';
    get();
    line.shared = get() == 's';
    for (int c = get(); c != '\n' && c >= 0; c = get()) {
    }
    return true;
  }

 private:
  int get() noexcept {
    if (at_ == count_) {
      count_ = fd_ < 0 ? 0 : sys::call(SYS_read, fd_, sys::arg(buffer_.data()), buffer_.size());
      at_ = 0;
      if (count_ <= 0) return -1;
    }
    return static_cast<unsigned char>(buffer_[static_cast<std::size_t>(at_++)]);
  }

  bool read_number(std::uint64_t& number, char end) noexcept {
    for (int c = get(); c != end; c = get()) {
      if (c < 0) return false;
      number = number * 16 + static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
  }

  long fd_;
  long count_ = 0;
  long at_ = 0;
  std::array<char, 4096> buffer_;
};

}  // namespace

HostMapping look_up_host_mapping(std::uint64_t address, std::uint64_t size_bytes) noexcept {
  MapsReader reader;
  MapsReader::Line line;
  const std::uint64_t end = address + size_bytes;
  std::uint64_t covered_to = address;
  HostMapping found{true, true, false};
  while (covered_to < end && reader.next(line)) {
    if (line.end <= covered_to) continue;
    if (line.begin > covered_to) break;
    found.is_readable &= line.readable;
    found.is_writable &= line.writable;
    found.is_one_shared = line.shared && line.begin <= address && line.end >= end;
    covered_to = line.end;
  }
  return covered_to >= end ? found : HostMapping{};
}

}  // namespace vramlink::simcuda
