// media: frames from files and into files, whatever the container.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <vramlink/format.hpp>
#include <vramlink/result.hpp>

namespace vramlink::cli::media {

/// Frames of one format, in order: next(), then read() once, and so on.
class FrameSource {
 public:
  virtual ~FrameSource() = default;

  /// With the nominal rate of the file, if it names one.
  [[nodiscard]] virtual const Format& format() const noexcept = 0;
  /// Goes to the next frame; false at the end of input. Codes: corrupt, os, interrupted.
  [[nodiscard]] virtual Result<bool> next() = 0;
  /// Puts the bytes of the current frame into `target`, which has payload_bytes.
  [[nodiscard]] virtual Result<void> read(std::span<std::byte> target) = 0;
  /// Starts over. Codes: invalid_argument (a pipe), os.
  [[nodiscard]] virtual Result<void> rewind() = 0;
  /// What a channel cannot say in its format: travels beside every frame. At most 256 bytes.
  [[nodiscard]] virtual std::span<const std::byte> user_data() const noexcept { return {}; }
  /// Something that the user should know, or nothing.
  [[nodiscard]] virtual std::string remark() const { return {}; }
};

/// One frame as a sink takes it.
struct FrameView {
  const Format& format;
  std::span<const std::byte> bytes;
  std::span<const std::byte> user_data;
};

/// A file being written. All frames have the format of the first.
class FrameSink {
 public:
  virtual ~FrameSink() = default;

  /// Writes the header first if this is the first frame. Codes: invalid_argument (the container
  /// cannot hold the format; names the option that helps), os, interrupted.
  [[nodiscard]] virtual Result<void> write(const FrameView& frame) = 0;
  /// Completes the file. Without a frame it becomes a file of no frames of `format`; with frames
  /// `format` means nothing. Codes: those of write, corrupt (the header promised another number of
  /// frames and cannot be rewritten).
  [[nodiscard]] virtual Result<void> finish(const Format& format) = 0;
};

/// What the user said about the input, as far as the file does not say it itself.
struct SourceOptions {
  std::optional<PixelFormat> pixel_format;
  std::optional<std::uint64_t> width;  ///< together with height; it means raw frames
  std::optional<std::uint64_t> height;
  std::optional<DType> dtype;  ///< how NPY elements are to be read
  bool one_frame = false;      ///< the whole NPY array is one frame
};

/// Finds out what the files hold. `paths`: one file or "-", or the pictures of a sequence in order,
/// or one pattern such as frame%04d.png. Codes: invalid_argument, unsupported, corrupt, os.
[[nodiscard]] Result<std::unique_ptr<FrameSource>> open_source(
    const std::vector<std::string>& paths, const SourceOptions& options);

enum class Container : std::uint8_t { y4m, raw, npy };

/// Opens `path` ("-": standard output) at once. `count`: how many frames will come, if that is
/// known; NPY to a pipe needs it. Codes: invalid_argument, permission_denied, os.
[[nodiscard]] Result<std::unique_ptr<FrameSink>> open_sink(Container container,
                                                           const std::string& path,
                                                           std::optional<std::uint64_t> count);

/// What an input without a byte is refused with.
[[nodiscard]] Error empty_input(const std::string& file);

/// Fills `target` from the input. Codes: corrupt, with the number of bytes that are missing.
class ByteInput;
[[nodiscard]] Result<void> read_frame_bytes(ByteInput& input, std::span<std::byte> target,
                                            std::uint64_t frame_number, std::string_view remedy);

}  // namespace vramlink::cli::media
