// media: reading and writing of Y4M.
#include "media/y4m.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "media/y4m_header.hpp"

namespace vramlink::cli::media {
namespace {

class Y4mSource final : public FrameSource {
 public:
  Y4mSource(ByteInput input, const Format& format, std::string header)
      : input_(std::move(input)), format_(format) {
    note_.header = std::move(header);
    packed_ = note_.pack(shortened_);
  }

  [[nodiscard]] const Format& format() const noexcept override { return format_; }

  [[nodiscard]] Result<bool> next() override {
    auto line = input_.line();
    if (!line) return std::move(line).error();
    if (!line->has_value()) return false;
    const std::string& text = **line;
    if (!text.starts_with(kY4mFrame) || (text.size() > kY4mFrame.size() && text[5] != ' ')) {
      return Error(Code::corrupt, "read Y4M")
          .about(input_.name())
          .because("frame " + std::to_string(number_ + 1) + " does not begin with FRAME");
    }
    ++number_;
    if (std::string parameters = text.substr(kY4mFrame.size());
        parameters != note_.frame_parameters) {
      note_.frame_parameters = std::move(parameters);
      packed_ = note_.pack(shortened_);
    }
    return true;
  }

  [[nodiscard]] Result<void> read(std::span<std::byte> target) override {
    return read_frame_bytes(input_, target, number_, {});
  }

  [[nodiscard]] Result<void> rewind() override {
    number_ = 0;
    auto sought = input_.seek(note_.header.size() + 1);
    return sought;
  }

  [[nodiscard]] std::span<const std::byte> user_data() const noexcept override {
    return std::as_bytes(std::span(packed_));
  }

  [[nodiscard]] std::string remark() const override {
    if (!shortened_) return {};
    return "the Y4M header of " + input_.name() +
           " is longer than 256 bytes: comments at its end do not travel";
  }

 private:
  ByteInput input_;
  Format format_;
  Y4mNote note_;
  std::string packed_;
  bool shortened_ = false;
  std::uint64_t number_ = 0;
};

class Y4mSink final : public FrameSink {
 public:
  explicit Y4mSink(ByteOutput output) : output_(std::move(output)) {}

  [[nodiscard]] Result<void> write(const FrameView& frame) override {
    const auto note = Y4mNote::unpack(frame.user_data, frame.format);
    std::string head;
    if (!started_) {
      auto begun = begin(frame.format, note ? &note->header : nullptr);
      if (!begun) return std::move(begun).error();
      head = *std::move(begun);
    }
    head += kY4mFrame;
    if (note) head += note->frame_parameters;
    head += "\n";
    if (!interleaved(frame.format)) return output_.write(head, frame.bytes, runs_);
    auto written = output_.write(head, frame.bytes, runs_);
    if (!written) return written;
    split_chroma(frame);
    const ByteRun all{0, chroma_.size()};
    return output_.write({}, chroma_, std::span(&all, 1));
  }

  [[nodiscard]] Result<void> finish(const Format& format) override {
    if (!started_) {
      auto head = begin(format, nullptr);
      if (!head) return std::move(head).error();
      auto written = output_.write(*head);
      if (!written) return written;
    }
    return output_.close();
  }

 private:
  // The line of the file; `carried` is the one that came with a frame.
  Result<std::string> begin(const Format& format, const std::string* carried) {
    auto canonical = make_y4m_header(format);
    if (!canonical) return canonical;
    runs_ = runs_of(format);
    started_ = true;
    return (carried ? *carried : *canonical) + "\n";
  }

  static bool interleaved(const Format& format) {
    return format.pixel_format == PixelFormat::nv12 || format.pixel_format == PixelFormat::nv21;
  }

  // Y, U, V; of the interleaved formats only Y.
  static std::vector<ByteRun> runs_of(Format format) {
    if (format.pixel_format == PixelFormat::yv12) std::swap(format.planes[1], format.planes[2]);
    if (interleaved(format)) format.plane_count = 1;
    return tight_runs(format);
  }

  void split_chroma(const FrameView& frame) {
    const Plane& plane = frame.format.planes[1];
    const std::size_t width = plane.row_bytes / 2;
    const std::size_t size = width * plane.row_count;
    chroma_.resize(size * 2);
    const std::size_t first = frame.format.pixel_format == PixelFormat::nv12 ? 0 : size;
    for (std::size_t y = 0; y < plane.row_count; ++y) {
      const std::byte* row = frame.bytes.data() + plane.offset_bytes + y * plane.row_pitch_bytes;
      for (std::size_t x = 0; x < width; ++x) {
        chroma_[first + y * width + x] = row[2 * x];
        chroma_[size - first + y * width + x] = row[2 * x + 1];
      }
    }
  }

  ByteOutput output_;
  std::vector<ByteRun> runs_;
  std::vector<std::byte> chroma_;
  bool started_ = false;
};

}  // namespace

Result<std::unique_ptr<FrameSource>> open_y4m(ByteInput input) {
  auto line = input.line();
  if (!line) return std::move(line).error();
  std::string header = line->value_or(std::string());
  auto format = parse_y4m_header(header, input.name());
  if (!format) return std::move(format).error();
  return std::unique_ptr<FrameSource>(
      std::make_unique<Y4mSource>(std::move(input), *format, std::move(header)));
}

std::unique_ptr<FrameSink> make_y4m_sink(ByteOutput output) {
  return std::make_unique<Y4mSink>(std::move(output));
}

}  // namespace vramlink::cli::media
