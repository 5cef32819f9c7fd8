// media: reading and writing of raw frames.
#include "media/raw.hpp"

#include <utility>
#include <vector>

namespace vramlink::cli::media {
namespace {

class RawSource final : public FrameSource {
 public:
  RawSource(ByteInput input, const Format& format) : input_(std::move(input)), format_(format) {}

  [[nodiscard]] const Format& format() const noexcept override { return format_; }
  [[nodiscard]] Result<bool> next() override {
    auto ahead = input_.peek(1);
    if (!ahead) return std::move(ahead).error();
    if (ahead->empty() && number_ == 0) return empty_input(input_.name());
    if (ahead->empty()) return false;
    ++number_;
    return true;
  }
  [[nodiscard]] Result<void> read(std::span<std::byte> target) override {
    return read_frame_bytes(input_, target, number_, "check --format and --size");
  }
  [[nodiscard]] Result<void> rewind() override {
    number_ = 0;
    return input_.seek(0);
  }

 private:
  ByteInput input_;
  Format format_;
  std::uint64_t number_ = 0;
};

class RawSink final : public FrameSink {
 public:
  explicit RawSink(ByteOutput output) : output_(std::move(output)) {}

  [[nodiscard]] Result<void> write(const FrameView& frame) override {
    if (runs_.empty()) runs_ = tight_runs(frame.format);
    return output_.write({}, frame.bytes, runs_);
  }
  [[nodiscard]] Result<void> finish(const Format&) override { return output_.close(); }

 private:
  ByteOutput output_;
  std::vector<ByteRun> runs_;
};

}  // namespace

std::unique_ptr<FrameSource> make_raw_source(ByteInput input, const Format& format) {
  return std::make_unique<RawSource>(std::move(input), format);
}

std::unique_ptr<FrameSink> make_raw_sink(ByteOutput output) {
  return std::make_unique<RawSink>(std::move(output));
}

}  // namespace vramlink::cli::media
