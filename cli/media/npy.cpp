// media: reading and writing of NPY.
#include "media/npy.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "media/npy_header.hpp"

namespace vramlink::cli::media {
namespace {

Error refused_npy(const std::string& file, std::string reason, std::string remedy) {
  return Error(Code::invalid_argument, "read NPY")
      .about(file)
      .because(std::move(reason))
      .remedy(std::move(remedy));
}

class NpySource final : public FrameSource {
 public:
  NpySource(ByteInput input, const Format& format, std::uint64_t count, std::uint64_t data_offset)
      : input_(std::move(input)), format_(format), count_(count), data_offset_(data_offset) {}

  [[nodiscard]] const Format& format() const noexcept override { return format_; }
  [[nodiscard]] Result<bool> next() override {
    if (number_ == count_) return false;
    ++number_;
    return true;
  }
  [[nodiscard]] Result<void> read(std::span<std::byte> target) override {
    return read_frame_bytes(input_, target, number_, {});
  }
  [[nodiscard]] Result<void> rewind() override {
    number_ = 0;
    return input_.seek(data_offset_);
  }

 private:
  ByteInput input_;
  Format format_;
  std::uint64_t count_;
  std::uint64_t data_offset_;
  std::uint64_t number_ = 0;
};

// Magic, version, length and dictionary; `data_offset` becomes where the elements begin.
Result<NpyArray> read_header(ByteInput& input, std::uint64_t& data_offset) {
  std::array<std::byte, 12> start{};
  const auto corrupt = [&input](const char* reason) {
    return Error(Code::corrupt, "read NPY header").about(input.name()).because(reason);
  };
  auto got = input.read(std::span(start).first(8));
  if (!got) return std::move(got).error();
  const std::string_view magic(reinterpret_cast<const char*>(start.data()), kNpyMagic.size());
  if (*got != 8 || magic != kNpyMagic) return corrupt("the magic is missing");
  const auto major = std::to_integer<unsigned>(start[6]);
  if (major < 1 || major > 3) return corrupt("the version of the file format is not 1, 2 or 3");
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  got = input.read(std::span(start).subspan(8, length_bytes));
  if (!got) return std::move(got).error();
  if (*got != length_bytes) return corrupt("it ends within the header");
  std::size_t length = 0;
  for (std::size_t i = length_bytes; i-- > 0;) {
    length = length * 256 + std::to_integer<std::size_t>(start[8 + i]);
  }
  if (length > kNpyHeaderBytesMax) return corrupt("the header is too long");
  std::string text(length, '\0');
  got = input.read(std::as_writable_bytes(std::span(text)));
  if (!got) return std::move(got).error();
  if (*got != length) return corrupt("it ends within the header");
  data_offset = 8 + length_bytes + length;
  return parse_npy_dictionary(text, input.name());
}

Result<DType> element_type(const NpyArray& array, const SourceOptions& options,
                           const std::string& file) {
  if (!options.dtype) {
    if (array.dtype) return *array.dtype;
    return refused_npy(file, "numpy has no name for its elements",
                       "--dtype, such as --dtype bfloat16 or --dtype float8_e4m3fn");
  }
  if (bits(*options.dtype) != array.element_bytes * 8) {
    return refused_npy(file,
                       "its elements have " + std::to_string(array.element_bytes) + " bytes, " +
                           std::string(name(*options.dtype)) + " has " +
                           std::to_string(bits(*options.dtype)) + " bits",
                       "another --dtype");
  }
  return *options.dtype;
}

// {height, width, channels} or {height, width} of pictures in one plane.
Result<Format> as_picture(PixelFormat pixel_format, const Format& tensor, const std::string& file) {
  const bool rank_fits = tensor.rank == 2 || tensor.rank == 3;
  auto format = rank_fits ? Format::image(pixel_format, tensor.shape[1], tensor.shape[0])
                          : Result<Format>(Error(Code::invalid_argument, "describe image"));
  const std::uint64_t channels = tensor.rank == 3 ? tensor.shape[2] : 1;
  if (!format || format->rank != 3 || format->shape[2] != channels ||
      format->dtype != tensor.dtype) {
    return refused_npy(file,
                       "frames of " + to_string(tensor) + " are no " +
                           std::string(name(pixel_format)) + " pictures",
                       "another --format, or none");
  }
  return format;
}

// The frame that a sink's header describes: its elements and their shape without gaps.
struct Layout {
  std::string_view descr;
  std::vector<std::uint64_t> shape;
  std::vector<ByteRun> runs;
};

Layout layout_of(const Format& format) {
  Layout layout{npy_descr(format.dtype), {}, tight_runs(format)};
  const bool flat = format.plane_count != 0 && format.rank == 1;
  if (flat || bits(format.dtype) % 8 != 0) {
    // Planes without their padding, or packed elements: bytes.
    layout.descr = npy_descr(DType::uint8);
    layout.shape = {total_bytes(layout.runs)};
    return layout;
  }
  layout.shape.assign(format.shape.begin(), format.shape.begin() + format.rank);
  return layout;
}

class NpySink final : public FrameSink {
 public:
  NpySink(ByteOutput output, std::optional<std::uint64_t> count)
      : output_(std::move(output)), promised_(count) {}

  [[nodiscard]] Result<void> write(const FrameView& frame) override {
    std::string head;
    if (written_ == 0) {
      layout_ = layout_of(frame.format);
      head = header(promised_.value_or(0));
    }
    ++written_;
    return output_.write(head, frame.bytes, layout_.runs);
  }

  [[nodiscard]] Result<void> finish(const Format& format) override {
    if (written_ != promised_ && !output_.can_rewrite()) {
      return Error(Code::corrupt, "write NPY")
          .about(output_.name())
          .because("--count promised " + std::to_string(promised_.value_or(0)) +
                   " frames, the stream ended after " + std::to_string(written_));
    }
    if (written_ == 0) {
      layout_ = layout_of(format);
      auto begun = output_.write(header(0));
      if (!begun) return begun;
    } else if (written_ != promised_) {
      auto rewritten = output_.rewrite_start(header(written_));
      if (!rewritten) return rewritten;
    }
    return output_.close();
  }

 private:
  // Of the same length for every count, so that it can be written over.
  [[nodiscard]] std::string header(std::uint64_t count) const {
    std::vector<std::uint64_t> shape = layout_.shape;
    shape.insert(shape.begin(), count);
    return make_npy_header(layout_.descr, shape);
  }

  ByteOutput output_;
  std::optional<std::uint64_t> promised_;
  Layout layout_;
  std::uint64_t written_ = 0;
};

}  // namespace

Result<std::unique_ptr<FrameSource>> open_npy(ByteInput input, const SourceOptions& options) {
  std::uint64_t data_offset = 0;
  auto array = read_header(input, data_offset);
  if (!array) return std::move(array).error();
  auto dtype = element_type(*array, options, input.name());
  if (!dtype) return std::move(dtype).error();
  const bool one = options.one_frame || array->shape.empty();
  const std::uint64_t count = one ? 1 : array->shape.front();
  const auto shape = std::span<const std::uint64_t>(array->shape).subspan(one ? 0 : 1);
  auto format = Format::tensor(*dtype, shape);
  if (!format) {
    const ErrorFacts* facts = format.error().facts();
    return refused_npy(input.name(),
                       "its frames: " + (facts ? facts->reason : std::string("bad shape")),
                       "another shape");
  }
  if (options.pixel_format) {
    format = as_picture(*options.pixel_format, *format, input.name());
    if (!format) return std::move(format).error();
  }
  return std::unique_ptr<FrameSource>(
      std::make_unique<NpySource>(std::move(input), *format, count, data_offset));
}

Result<std::unique_ptr<FrameSink>> make_npy_sink(ByteOutput output,
                                                 std::optional<std::uint64_t> count) {
  if (!output.can_rewrite() && !count) {
    return Error(Code::invalid_argument, "write NPY")
        .about(output.name())
        .because("the header of NPY holds the number of frames, and this cannot be rewritten")
        .remedy("--count, or a file");
  }
  return std::unique_ptr<FrameSink>(std::make_unique<NpySink>(std::move(output), count));
}

Result<void> write_npy(ByteOutput& output, const Format& format, std::span<const std::byte> bytes) {
  const Layout layout = layout_of(format);
  return output.write(make_npy_header(layout.descr, layout.shape), bytes, layout.runs);
}

}  // namespace vramlink::cli::media
