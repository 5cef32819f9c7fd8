// media: frames one after another, with nothing between.
#pragma once

#include <memory>

#include "media/byte_input.hpp"
#include "media/byte_output.hpp"
#include "media/frame_io.hpp"

namespace vramlink::cli::media {

[[nodiscard]] std::unique_ptr<FrameSource> make_raw_source(ByteInput input, const Format& format);
/// Samples without row padding.
[[nodiscard]] std::unique_ptr<FrameSink> make_raw_sink(ByteOutput output);

}  // namespace vramlink::cli::media
