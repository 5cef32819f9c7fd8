// media: reading of files and pipes.
#include "media/byte_input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace vramlink::cli::media {
namespace {

// One read moves at most this much, so that a signal is seen in time.
constexpr std::size_t kReadBytesMax = std::size_t{64} << 20;

}  // namespace

Error file_error(const char* operation, const std::string& path, int error_number) {
  if (error_number == EINTR) return Error(Code::interrupted, operation).about(path);
  // Not not_found: its exit code is the channels', and a missing file is a plain failure.
  Code code = Code::os;
  if (error_number == EACCES || error_number == EPERM || error_number == EROFS) {
    code = Code::permission_denied;
  }
  return Error(code, operation)
      .about(path)
      .because(::strerrordesc_np(error_number) ? ::strerrordesc_np(error_number) : "unknown")
      .from(Origin::os, error_number);
}

Result<ByteInput> ByteInput::open(const std::string& path) {
  if (path == "-") {
    const int fd = ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) return file_error("read", "standard input", errno);
    return ByteInput(fd, "standard input");
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return file_error("open", path, errno);
  return ByteInput(fd, path);
}

ByteInput::ByteInput(int fd, std::string name) noexcept : fd_(fd), name_(std::move(name)) {}

ByteInput::ByteInput(ByteInput&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      name_(std::move(other.name_)),
      buffer_(other.buffer_),
      begin_(other.begin_),
      end_(other.end_) {}

ByteInput& ByteInput::operator=(ByteInput&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
    name_ = std::move(other.name_);
    buffer_ = other.buffer_;
    begin_ = other.begin_;
    end_ = other.end_;
  }
  return *this;
}

ByteInput::~ByteInput() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::size_t> ByteInput::read_some(std::span<std::byte> target) {
  const ssize_t count = ::read(fd_, target.data(), std::min(target.size(), kReadBytesMax));
  if (count >= 0) return static_cast<std::size_t>(count);
  return file_error("read", name_, errno);
}

Result<std::span<const std::byte>> ByteInput::peek(std::size_t count) {
  count = std::min(count, kBufferBytes);
  if (buffered() < count && begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, buffered());
    end_ -= begin_;
    begin_ = 0;
  }
  while (buffered() < count) {
    auto got = read_some(std::span(buffer_).subspan(end_));
    if (!got) return std::move(got).error();
    if (*got == 0) break;
    end_ += *got;
  }
  return std::span<const std::byte>(buffer_).subspan(begin_, std::min(count, buffered()));
}

Result<std::size_t> ByteInput::read(std::span<std::byte> target) {
  std::size_t done = std::min(target.size(), buffered());
  if (done > 0) std::memcpy(target.data(), buffer_.data() + begin_, done);
  begin_ += done;
  while (done < target.size()) {
    auto got = read_some(target.subspan(done));
    if (!got) return std::move(got).error();
    if (*got == 0) break;
    done += *got;
  }
  return done;
}

Result<std::optional<std::string>> ByteInput::line() {
  std::size_t looked_at = 0;
  while (true) {
    const auto* begin = reinterpret_cast<const char*>(buffer_.data()) + begin_;
    const void* found = std::memchr(begin + looked_at, '\n', buffered() - looked_at);
    if (found) {
      const std::size_t size = static_cast<std::size_t>(static_cast<const char*>(found) - begin);
      std::string text(begin, size);
      begin_ += size + 1;
      return std::optional<std::string>(std::move(text));
    }
    looked_at = buffered();
    if (looked_at == kBufferBytes) {
      return Error(Code::corrupt, "read header")
          .about(name_)
          .because("a header line is longer than " + std::to_string(kBufferBytes) + " bytes");
    }
    auto more = peek(looked_at + 1);
    if (!more) return std::move(more).error();
    if (more->size() == looked_at) {
      if (looked_at == 0) return std::optional<std::string>();
      return Error(Code::corrupt, "read header").about(name_).because("it ends within a header");
    }
  }
}

Result<void> ByteInput::seek(std::uint64_t offset) {
  if (::lseek(fd_, static_cast<off_t>(offset), SEEK_SET) < 0) {
    if (errno != ESPIPE) return file_error("seek", name_, errno);
    return Error(Code::invalid_argument, "loop")
        .about(name_)
        .because("a pipe cannot be read twice")
        .remedy("a file, or no --loop");
  }
  begin_ = 0;
  end_ = 0;
  return {};
}

}  // namespace vramlink::cli::media
