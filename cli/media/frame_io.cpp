// media: which container it is.
#include "media/frame_io.hpp"

#include <utility>

#include "media/byte_input.hpp"
#include "media/byte_output.hpp"
#include "media/npy.hpp"
#include "media/npy_header.hpp"
#include "media/png_file.hpp"
#include "media/raw.hpp"
#include "media/y4m.hpp"
#include "media/y4m_header.hpp"

namespace vramlink::cli::media {
namespace {

constexpr std::size_t kMagicBytes = 10;

Error refused_frames(const std::string& file, std::string reason, std::string remedy) {
  return Error(Code::invalid_argument, "open")
      .about(file)
      .because(std::move(reason))
      .remedy(std::move(remedy));
}

Result<std::unique_ptr<FrameSource>> open_raw(ByteInput input, bool may_wait,
                                              const SourceOptions& options) {
  if (!options.pixel_format) {
    return refused_frames(input.name(), "raw frames of a size but no format",
                          "--format, such as --format RGBA");
  }
  auto format = Format::image(*options.pixel_format, *options.width, *options.height);
  if (!format) return std::move(format).error();
  if (!may_wait) return make_raw_source(std::move(input), *format);
  auto start = input.peek(1);
  if (!start) return std::move(start).error();
  if (start->empty()) return empty_input(input.name());
  return make_raw_source(std::move(input), *format);
}

// Options that a self-describing file has no use for are mistakes.
std::optional<Error> unwanted(const std::string& file, const char* kind,
                              const SourceOptions& options) {
  const char* option = nullptr;
  if (options.pixel_format) option = "--format";
  if (options.dtype) option = "--dtype";
  if (options.one_frame) option = "--one-frame";
  if (!option) return std::nullopt;
  return refused_frames(file, std::string(kind) + " says itself what it holds",
                        "the command without " + std::string(option));
}

Result<std::unique_ptr<FrameSource>> open_by_content(ByteInput input, std::string_view magic,
                                                     const SourceOptions& options) {
  if (magic.starts_with(kY4mMagic)) {
    if (auto error = unwanted(input.name(), "Y4M", options)) return *std::move(error);
    return open_y4m(std::move(input));
  }
  if (magic.starts_with(kNpyMagic)) return open_npy(std::move(input), options);
  if (magic.empty()) return empty_input(input.name());
  return refused_frames(input.name(),
                        "it is not Y4M, NPY or PNG; raw frames need a format and a size",
                        "--format and --size, such as --format RGBA --size 1920x1080");
}

}  // namespace

Result<std::unique_ptr<FrameSource>> open_source(const std::vector<std::string>& paths,
                                                 const SourceOptions& options) {
  if (paths.size() > 1 || is_png_pattern(paths.front())) {
    if (auto error = unwanted(paths.front(), "PNG", options)) return *std::move(error);
    return open_png_sequence(paths);
  }
  auto input = ByteInput::open(paths.front());
  if (!input) return std::move(input).error();
  if (options.width) {
    // The format of a pipe is known before its first byte, so its channel can be there at once.
    return open_raw(*std::move(input), paths.front() != "-", options);
  }
  auto start = input->peek(kMagicBytes);
  if (!start) return std::move(start).error();
  // A copy: the view would not survive the move of the input.
  const std::string magic(reinterpret_cast<const char*>(start->data()), start->size());
  if (magic.starts_with(kPngMagic)) {
    if (paths.front() == "-") {
      return refused_frames(input->name(), "PNG pictures do not come through a pipe",
                            "their file names, or a pattern such as frame%04d.png");
    }
    if (auto error = unwanted(paths.front(), "PNG", options)) return *std::move(error);
    return open_png_sequence(paths);
  }
  return open_by_content(*std::move(input), magic, options);
}

Result<std::unique_ptr<FrameSink>> open_sink(Container container, const std::string& path,
                                             std::optional<std::uint64_t> count) {
  if (container == Container::npy && path == "-" && !count) {
    return Error(Code::invalid_argument, "write NPY")
        .about("standard output")
        .because("the header of NPY holds the number of frames, and a pipe cannot be rewritten")
        .remedy("--count, or a file");
  }
  auto output = ByteOutput::open(path);
  if (!output) return std::move(output).error();
  switch (container) {
    case Container::y4m:
      return make_y4m_sink(*std::move(output));
    case Container::raw:
      return make_raw_sink(*std::move(output));
    case Container::npy:
      break;
  }
  return make_npy_sink(*std::move(output), count);
}

Error empty_input(const std::string& file) {
  return Error(Code::corrupt, "open").about(file).because("it is empty");
}

Result<void> read_frame_bytes(ByteInput& input, std::span<std::byte> target,
                              std::uint64_t frame_number, std::string_view remedy) {
  auto got = input.read(target);
  if (!got) return std::move(got).error();
  if (*got == target.size()) return {};
  return Error(Code::corrupt, "read")
      .about(input.name())
      .because("frame " + std::to_string(frame_number) + " has " + std::to_string(*got) + " of " +
               std::to_string(target.size()) + " bytes, " + std::to_string(target.size() - *got) +
               " are missing")
      .remedy(std::string(remedy))
      .numbers(target.size(), *got);
}

}  // namespace vramlink::cli::media
