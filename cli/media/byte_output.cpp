// media: writing of files and pipes.
#include "media/byte_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "media/byte_input.hpp"

namespace vramlink::cli::media {
namespace {

constexpr std::size_t kBatch = 64;

void append(std::vector<ByteRun>& runs, std::uint64_t offset, std::uint64_t size) {
  if (!runs.empty() && runs.back().offset_bytes + runs.back().size_bytes == offset) {
    runs.back().size_bytes += size;
  } else {
    runs.push_back({offset, size});
  }
}

// Walks all indices but those of the last axis, or of none if the elements are smaller than a byte.
void append_tensor(std::vector<ByteRun>& runs, const Format& format) {
  const std::uint64_t element_bytes = bits(format.dtype) / 8;
  std::uint64_t count = 1;
  bool tight = true;
  for (std::uint32_t i = format.rank; i-- > 0;) {
    tight =
        tight && (format.strides[i] == static_cast<std::int64_t>(count) || format.shape[i] == 1);
    count *= format.shape[i];
  }
  if (tight || element_bytes == 0) {
    append(runs, 0, tight && element_bytes != 0 ? count * element_bytes : format.payload_bytes);
    return;
  }
  std::array<std::uint64_t, kRankMax> index{};
  for (std::uint64_t done = 0; done < count; ++done) {
    std::uint64_t element = 0;
    for (std::uint32_t i = 0; i < format.rank; ++i) {
      element += index[i] * static_cast<std::uint64_t>(format.strides[i]);
    }
    append(runs, element * element_bytes, element_bytes);
    for (std::uint32_t i = format.rank; i-- > 0;) {
      if (++index[i] < format.shape[i]) break;
      index[i] = 0;
    }
  }
}

Result<void> write_all(int fd, const std::string& name, std::span<iovec> parts) {
  while (!parts.empty()) {
    const ssize_t written = ::writev(fd, parts.data(), static_cast<int>(parts.size()));
    if (written < 0) return file_error("write", name, errno);
    auto left = static_cast<std::size_t>(written);
    while (!parts.empty() && left >= parts.front().iov_len) {
      left -= parts.front().iov_len;
      parts = parts.subspan(1);
    }
    if (left > 0) {
      parts.front().iov_base = static_cast<char*>(parts.front().iov_base) + left;
      parts.front().iov_len -= left;
    }
  }
  return {};
}

}  // namespace

std::vector<ByteRun> tight_runs(const Format& format) {
  std::vector<ByteRun> runs;
  if (format.plane_count == 0) append_tensor(runs, format);
  for (std::uint32_t i = 0; i < format.plane_count; ++i) {
    const Plane& plane = format.planes[i];
    for (std::uint64_t row = 0; row < plane.row_count; ++row) {
      append(runs, plane.offset_bytes + row * plane.row_pitch_bytes, plane.row_bytes);
    }
  }
  return runs;
}

std::uint64_t total_bytes(std::span<const ByteRun> runs) noexcept {
  std::uint64_t total = 0;
  for (const ByteRun& run : runs) total += run.size_bytes;
  return total;
}

Result<ByteOutput> ByteOutput::open(const std::string& path) {
  if (path == "-") {
    const int fd = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) return file_error("write", "standard output", errno);
    return ByteOutput(fd, "standard output", false);
  }
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return file_error("create", path, errno);
  struct stat status {};
  const bool regular = ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
  return ByteOutput(fd, path, regular);
}

ByteOutput::ByteOutput(int fd, std::string name, bool can_rewrite) noexcept
    : fd_(fd), name_(std::move(name)), can_rewrite_(can_rewrite) {}

ByteOutput::ByteOutput(ByteOutput&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      name_(std::move(other.name_)),
      can_rewrite_(other.can_rewrite_) {}

ByteOutput& ByteOutput::operator=(ByteOutput&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
    name_ = std::move(other.name_);
    can_rewrite_ = other.can_rewrite_;
  }
  return *this;
}

ByteOutput::~ByteOutput() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> ByteOutput::write(std::string_view head, std::span<const std::byte> frame,
                               std::span<const ByteRun> runs) {
  std::array<iovec, kBatch> parts;
  std::size_t count = 0;
  if (!head.empty()) parts[count++] = {const_cast<char*>(head.data()), head.size()};
  for (const ByteRun& run : runs) {
    if (count == kBatch) {
      auto written = write_all(fd_, name_, std::span(parts).first(count));
      if (!written) return written;
      count = 0;
    }
    const auto part = frame.subspan(run.offset_bytes, run.size_bytes);
    parts[count++] = {const_cast<std::byte*>(part.data()), part.size()};
  }
  return write_all(fd_, name_, std::span(parts).first(count));
}

Result<void> ByteOutput::rewrite_start(std::string_view head) {
  std::size_t done = 0;
  while (done < head.size()) {
    const ssize_t written =
        ::pwrite(fd_, head.data() + done, head.size() - done, static_cast<off_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return file_error("write", name_, errno);
    done += static_cast<std::size_t>(written);
  }
  return {};
}

Result<void> ByteOutput::close() {
  if (::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) {
    return file_error("close", name_, errno);
  }
  return {};
}

}  // namespace vramlink::cli::media
