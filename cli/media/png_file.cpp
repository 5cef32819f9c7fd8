// media: reading and writing of PNG with libpng.
#include "media/png_file.hpp"

#include <png.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

#include "media/byte_input.hpp"
#include "media/byte_output.hpp"

namespace vramlink::cli::media {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const noexcept { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

Error corrupt_png(const std::string& path, const char* reason) {
  return Error(Code::corrupt, "read PNG").about(path).because(reason);
}

// libpng leaves by longjmp: between setjmp and it only trivial objects live, and the message is
// kept here.
struct Complaint {
  std::array<char, 96> text{};
};

void on_png_error(png_structp png, png_const_charp message) {
  auto* complaint = static_cast<Complaint*>(png_get_error_ptr(png));
  std::strncpy(complaint->text.data(), message, complaint->text.size() - 1);
  png_longjmp(png, 1);
}

void on_png_warning(png_structp, png_const_charp) {}

// One open PNG file whose samples are set up to come as one of our pixel formats.
class PngReader {
 public:
  explicit PngReader(File file) : file_(std::move(file)) {}
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() {
    if (png_) png_destroy_read_struct(&png_, &info_, nullptr);
  }

  [[nodiscard]] const char* why() const noexcept { return complaint_.text.data(); }

  bool read_header() {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &complaint_, on_png_error, on_png_warning);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_init_io(png_, file_.get());
    png_read_info(png_, info_);
    set_up_samples();
    return true;
  }

  [[nodiscard]] PixelFormat pixel_format() const noexcept {
    const int color = png_get_color_type(png_, info_);
    const bool wide = png_get_bit_depth(png_, info_) == 16;
    if (color == PNG_COLOR_TYPE_GRAY) return wide ? PixelFormat::gray16_le : PixelFormat::gray8;
    if (wide) return PixelFormat::rgba64_le;
    return color == PNG_COLOR_TYPE_RGB ? PixelFormat::rgb : PixelFormat::rgba;
  }
  [[nodiscard]] std::uint32_t width() const noexcept { return png_get_image_width(png_, info_); }
  [[nodiscard]] std::uint32_t height() const noexcept { return png_get_image_height(png_, info_); }

  // `pixels` has room for all rows at `pitch`, which is that of the pixel format.
  bool read_rows(png_bytep pixels, std::size_t pitch) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    if (png_get_rowbytes(png_, info_) != pitch) png_error(png_, "rows of an unexpected size");
    for (int pass = 0; pass < passes_; ++pass) {
      for (std::uint32_t y = 0; y < height(); ++y) png_read_row(png_, pixels + y * pitch, nullptr);
    }
    png_read_end(png_, nullptr);
    return true;
  }

 private:
  // Gray or RGB or RGBA of 8 bits; gray or RGBA of 16 bits in this machine's byte order.
  void set_up_samples() {
    const int color = png_get_color_type(png_, info_);
    const int depth = png_get_bit_depth(png_, info_);
    const bool transparent = png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (color == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png_);
    if (transparent) png_set_tRNS_to_alpha(png_);
    const bool gray = (color & PNG_COLOR_MASK_COLOR) == 0;
    const bool alpha = (color & PNG_COLOR_MASK_ALPHA) != 0 || transparent;
    if (gray && alpha) png_set_gray_to_rgb(png_);
    if (depth == 16) {
      png_set_swap(png_);
      if (!gray && !alpha) png_set_add_alpha(png_, 0xffff, PNG_FILLER_AFTER);
    }
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
  }

  File file_;
  Complaint complaint_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
};

Result<std::unique_ptr<PngReader>> open_png(const std::string& path) {
  File file(std::fopen(path.c_str(), "rbe"));
  if (!file) return file_error("open", path, errno);
  auto reader = std::make_unique<PngReader>(std::move(file));
  if (!reader->read_header()) return corrupt_png(path, reader->why());
  return reader;
}

class PngSource final : public FrameSource {
 public:
  PngSource(std::vector<std::string> paths, const Format& format)
      : paths_(std::move(paths)), format_(format) {}

  [[nodiscard]] const Format& format() const noexcept override { return format_; }

  [[nodiscard]] Result<bool> next() override {
    if (position_ == paths_.size()) return false;
    ++position_;
    return true;
  }

  [[nodiscard]] Result<void> read(std::span<std::byte> target) override {
    const std::string& path = paths_[position_ - 1];
    auto reader = open_png(path);
    if (!reader) return std::move(reader).error();
    PngReader& png = **reader;
    if (png.pixel_format() != format_.pixel_format || png.width() != format_.width ||
        png.height() != format_.height) {
      return Error(Code::invalid_argument, "read PNG")
          .about(path)
          .because("it is " + std::string(name(png.pixel_format())) + " " +
                   std::to_string(png.width()) + "x" + std::to_string(png.height()) +
                   ", the first picture is " + to_string(format_))
          .remedy("pictures of one size and kind");
    }
    if (!png.read_rows(reinterpret_cast<png_bytep>(target.data()),
                       format_.planes[0].row_pitch_bytes)) {
      return corrupt_png(path, png.why());
    }
    return {};
  }

  [[nodiscard]] Result<void> rewind() override {
    position_ = 0;
    return {};
  }

 private:
  std::vector<std::string> paths_;
  Format format_;
  std::size_t position_ = 0;
};

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// Where %d or %0Nd stands: its begin, end and N.
struct Placeholder {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t width = 0;
};

std::optional<Placeholder> find_placeholder(const std::string& pattern) {
  const std::size_t begin = pattern.find('%');
  if (begin == std::string::npos) return std::nullopt;
  std::size_t at = begin + 1;
  std::size_t width = 0;
  while (at < pattern.size() && pattern[at] >= '0' && pattern[at] <= '9' && width < 100) {
    width = width * 10 + static_cast<std::size_t>(pattern[at++] - '0');
  }
  if (at >= pattern.size() || pattern[at] != 'd' || width > 20) return std::nullopt;
  return Placeholder{begin, at + 1, width};
}

std::vector<std::string> expand_all(const std::string& pattern) {
  std::vector<std::string> paths;
  std::uint64_t number = exists(expand_png_pattern(pattern, 0)) ? 0 : 1;
  for (std::string path; exists(path = expand_png_pattern(pattern, number)); ++number) {
    paths.push_back(std::move(path));
  }
  return paths;
}

}  // namespace

bool is_png_pattern(const std::string& path) {
  return find_placeholder(path).has_value() && !exists(path);
}

std::string expand_png_pattern(const std::string& pattern, std::uint64_t number) {
  const auto place = find_placeholder(pattern);
  if (!place) return pattern;
  std::string digits = std::to_string(number);
  if (digits.size() < place->width) digits.insert(0, place->width - digits.size(), '0');
  return pattern.substr(0, place->begin) + digits + pattern.substr(place->end);
}

Result<std::unique_ptr<FrameSource>> open_png_sequence(const std::vector<std::string>& paths) {
  std::vector<std::string> all = paths;
  if (paths.size() == 1 && is_png_pattern(paths.front())) {
    all = expand_all(paths.front());
    if (all.empty()) {
      return Error(Code::invalid_argument, "open")
          .about(paths.front())
          .because("there is neither " + expand_png_pattern(paths.front(), 0) + " nor " +
                   expand_png_pattern(paths.front(), 1));
    }
  }
  auto reader = open_png(all.front());
  if (!reader) return std::move(reader).error();
  auto format = Format::image((*reader)->pixel_format(), (*reader)->width(), (*reader)->height());
  if (!format) return std::move(format).error();
  format->color_matrix = ColorMatrix::rgb;
  format->color_range = ColorRange::full;
  return std::unique_ptr<FrameSource>(std::make_unique<PngSource>(std::move(all), *format));
}

Result<void> write_png(const std::string& path, const Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = picture.width;
  image.height = picture.height;
  image.flags = PNG_IMAGE_FLAG_FAST;
  image.format = picture.channels == 4 ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::vector<std::byte> bytes(size);
  if (png_image_write_to_memory(&image, bytes.data(), &size, 0, picture.pixels.data(), 0,
                                nullptr) == 0) {
    return Error(Code::unsupported, "encode PNG").about(path).because(image.message);
  }
  auto output = ByteOutput::open(path);
  if (!output) return std::move(output).error();
  const ByteRun all{0, size};
  auto written = output->write({}, bytes, std::span(&all, 1));
  if (!written) return written;
  return output->close();
}

}  // namespace vramlink::cli::media
