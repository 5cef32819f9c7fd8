// media: NPY files as sources and sinks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "media/byte_input.hpp"
#include "media/byte_output.hpp"
#include "media/frame_io.hpp"

namespace vramlink::cli::media {

[[nodiscard]] Result<std::unique_ptr<FrameSource>> open_npy(ByteInput input,
                                                            const SourceOptions& options);
/// A file of one axis more than a frame has: the frames. `count` is needed where the output cannot
/// be rewritten. Codes: invalid_argument.
[[nodiscard]] Result<std::unique_ptr<FrameSink>> make_npy_sink(ByteOutput output,
                                                               std::optional<std::uint64_t> count);
/// The whole file for one frame, without an axis for frames.
[[nodiscard]] Result<void> write_npy(ByteOutput& output, const Format& format,
                                     std::span<const std::byte> bytes);

}  // namespace vramlink::cli::media
