// media: Y4M files as sources and sinks.
#pragma once

#include <memory>

#include "media/byte_input.hpp"
#include "media/byte_output.hpp"
#include "media/frame_io.hpp"

namespace vramlink::cli::media {

[[nodiscard]] Result<std::unique_ptr<FrameSource>> open_y4m(ByteInput input);
[[nodiscard]] std::unique_ptr<FrameSink> make_y4m_sink(ByteOutput output);

}  // namespace vramlink::cli::media
