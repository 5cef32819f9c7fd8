// media: bytes of a file or pipe, with a small buffer for headers; payload goes past the buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <vramlink/result.hpp>

namespace vramlink::cli::media {

/// Owns a file descriptor. A signal with a handler ends a blocking read with `interrupted`.
class ByteInput {
 public:
  static constexpr std::size_t kBufferBytes = 4096;

  /// "-" is standard input. Codes: permission_denied, interrupted, os.
  [[nodiscard]] static Result<ByteInput> open(const std::string& path);
  /// Takes `fd`.
  ByteInput(int fd, std::string name) noexcept;
  ByteInput(ByteInput&& other) noexcept;
  ByteInput& operator=(ByteInput&& other) noexcept;
  ByteInput(const ByteInput&) = delete;
  ByteInput& operator=(const ByteInput&) = delete;
  ~ByteInput();

  /// Up to kBufferBytes of what comes next, without taking it; fewer at the end only.
  [[nodiscard]] Result<std::span<const std::byte>> peek(std::size_t count);
  /// Fills `target`; returns how many bytes there were, fewer at the end only.
  [[nodiscard]] Result<std::size_t> read(std::span<std::byte> target);
  /// The text up to the next newline, which is taken too; nothing at the end of input.
  /// Codes: corrupt (no newline within kBufferBytes).
  [[nodiscard]] Result<std::optional<std::string>> line();
  /// Codes: unsupported (a pipe).
  [[nodiscard]] Result<void> seek(std::uint64_t offset);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  [[nodiscard]] Result<std::size_t> read_some(std::span<std::byte> target);
  [[nodiscard]] std::size_t buffered() const noexcept { return end_ - begin_; }

  int fd_ = -1;
  std::string name_;
  std::array<std::byte, kBufferBytes> buffer_{};
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

/// A file error with its errno, in the code that fits: permission_denied, interrupted (EINTR:
/// our signals have no handler but the one that ends blocking calls) or os.
[[nodiscard]] Error file_error(const char* operation, const std::string& path, int error_number);

}  // namespace vramlink::cli::media
