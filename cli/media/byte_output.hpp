// media: bytes to a file or pipe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <vramlink/format.hpp>
#include <vramlink/result.hpp>

namespace vramlink::cli::media {

/// A run of bytes within a frame.
struct ByteRun {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

/// The samples of a frame without row padding, in the order of its planes; one run where possible.
/// Tensors with gaps give their elements in row-major order.
[[nodiscard]] std::vector<ByteRun> tight_runs(const Format& format);
[[nodiscard]] std::uint64_t total_bytes(std::span<const ByteRun> runs) noexcept;

/// Owns a file descriptor; writes go straight to it. SIGPIPE must be ignored: a closed pipe is an
/// error of Code::os with EPIPE.
class ByteOutput {
 public:
  /// "-" is standard output. Creates or empties the file. Codes: permission_denied, os.
  [[nodiscard]] static Result<ByteOutput> open(const std::string& path);
  ByteOutput(ByteOutput&& other) noexcept;
  ByteOutput& operator=(ByteOutput&& other) noexcept;
  ByteOutput(const ByteOutput&) = delete;
  ByteOutput& operator=(const ByteOutput&) = delete;
  ~ByteOutput();

  /// Writes `head`, then `runs` of `frame`. Codes: os, interrupted.
  [[nodiscard]] Result<void> write(std::string_view head, std::span<const std::byte> frame = {},
                                   std::span<const ByteRun> runs = {});
  /// Writes over the first bytes of a file that can_rewrite().
  [[nodiscard]] Result<void> rewrite_start(std::string_view head);
  [[nodiscard]] bool can_rewrite() const noexcept { return can_rewrite_; }
  /// Reports what the system tells only at the end (quotas, network file systems).
  [[nodiscard]] Result<void> close();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

 private:
  ByteOutput(int fd, std::string name, bool can_rewrite) noexcept;

  int fd_ = -1;
  std::string name_;
  bool can_rewrite_ = false;
};

}  // namespace vramlink::cli::media
