#include "../../../cli/media/frame_io.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "../../../cli/media/byte_input.hpp"
#include "../../../cli/media/byte_output.hpp"
#include "../../../cli/media/npy_header.hpp"
#include "temporary_folder.hpp"

namespace vramlink::cli::media {
namespace {

using test::read_file;
using test::TemporaryFolder;

std::string pattern(std::size_t size, unsigned seed = 0) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + seed);
  return text;
}

// Source to sink, as a channel would carry it.
Result<void> copy(FrameSource& source, FrameSink& sink) {
  std::vector<std::byte> frame(source.format().payload_bytes);
  while (true) {
    auto more = source.next();
    if (!more) return std::move(more).error();
    if (!*more) return sink.finish(source.format());
    auto read = source.read(frame);
    if (!read) return read;
    auto written = sink.write({source.format(), frame, source.user_data()});
    if (!written) return written;
  }
}

Result<void> copy_file(const std::string& from, Container container, const std::string& to,
                       const SourceOptions& options = {}) {
  auto source = open_source({from}, options);
  if (!source) return std::move(source).error();
  auto sink = open_sink(container, to, std::nullopt);
  if (!sink) return std::move(sink).error();
  return copy(**source, **sink);
}

TEST(FrameIo, Y4mIsTheSameByteForByte) {
  const TemporaryFolder folder;
  for (const std::string& header :
       {std::string(
            "YUV4MPEG2 W5 H3 F30000:1001 Ip A1:1 C420mpeg2 XYSCSS=420MPEG2 XCOLORRANGE=FULL"),
        std::string("YUV4MPEG2 H3 W5 C420paldv"), std::string("YUV4MPEG2 W5 H3  F25:1 A128:117 "),
        std::string("YUV4MPEG2 W5 H3 F0:0 I? C420")}) {
    std::string file = header + "\n";
    for (unsigned i = 0; i < 4; ++i) {
      file += (i == 2 ? "FRAME Xnote\n" : "FRAME\n") + pattern(15 + 6 + 6, i);
    }
    ASSERT_TRUE(copy_file(folder.write("a.y4m", file), Container::y4m, folder.path("b.y4m")));
    EXPECT_EQ(read_file(folder.path("b.y4m")), file) << header;
  }
}

TEST(FrameIo, Y4mTakesOtherOrdersOfPlanes) {
  const TemporaryFolder folder;
  const auto written = [&](PixelFormat kind, const std::string& frame) {
    SourceOptions options;
    options.pixel_format = kind;
    options.width = 4;
    options.height = 2;
    copy_file(folder.write("a", frame), Container::y4m, folder.path("b"), options).value();
    const std::string file = read_file(folder.path("b"));
    return file.substr(file.find("FRAME\n") + 6);
  };
  EXPECT_EQ(written(PixelFormat::i420, "yyyyYYYYuUvV"), "yyyyYYYYuUvV");
  EXPECT_EQ(written(PixelFormat::yv12, "yyyyYYYYvVuU"), "yyyyYYYYuUvV");
  EXPECT_EQ(written(PixelFormat::nv12, "yyyyYYYYuvUV"), "yyyyYYYYuUvV");
  EXPECT_EQ(written(PixelFormat::nv21, "yyyyYYYYvuVU"), "yyyyYYYYuUvV");
}

TEST(FrameIo, RawIsTheSameByteForByte) {
  const TemporaryFolder folder;
  SourceOptions options;
  options.pixel_format = PixelFormat::rgba64_le;
  options.width = 33;
  options.height = 17;
  const std::string file = pattern(33 * 17 * 8 * 3);
  ASSERT_TRUE(copy_file(folder.write("a", file), Container::raw, folder.path("b"), options));
  EXPECT_EQ(read_file(folder.path("b")), file);
}

TEST(FrameIo, NpyIsTheSameByteForByte) {
  const TemporaryFolder folder;
  const std::array<std::uint64_t, 3> shape{6, 5, 4};
  for (const char* descr : {"|u1", "<f2", "<f4", "<c16", "|b1"}) {
    const std::string head = make_npy_header(descr, shape);
    const auto array = parse_npy_dictionary(std::string_view(head).substr(10), "x").value();
    const std::string file = head + pattern(120 * array.element_bytes);
    ASSERT_TRUE(copy_file(folder.write("a.npy", file), Container::npy, folder.path("b.npy")));
    EXPECT_EQ(read_file(folder.path("b.npy")), file) << descr;
  }
}

TEST(FrameIo, NpyElementsCanBeNamed) {
  const TemporaryFolder folder;
  const std::array<std::uint64_t, 2> shape{2, 3};
  const std::string path = folder.write("a.npy", make_npy_header("|V2", shape) + pattern(12));
  EXPECT_TRUE(open_source({path}, {}).failed_with(Code::invalid_argument));
  SourceOptions options;
  options.dtype = DType::bfloat16;
  EXPECT_EQ(open_source({path}, options).value()->format().dtype, DType::bfloat16);
  options.dtype = DType::float8_e5m2;
  EXPECT_TRUE(open_source({path}, options).failed_with(Code::invalid_argument));
  options.dtype = DType::bfloat16;
  options.one_frame = true;
  EXPECT_EQ(open_source({path}, options).value()->format().rank, 2U);
}

TEST(FrameIo, NpyCanBePictures) {
  const TemporaryFolder folder;
  const std::array<std::uint64_t, 4> shape{2, 3, 5, 4};
  const std::string path = folder.write("a.npy", make_npy_header("|u1", shape) + pattern(120));
  SourceOptions options;
  options.pixel_format = PixelFormat::bgra;
  const auto source = open_source({path}, options).value();
  EXPECT_EQ(source->format(), Format::image(PixelFormat::bgra, 5, 3).value());
  options.pixel_format = PixelFormat::rgb;
  EXPECT_TRUE(open_source({path}, options).failed_with(Code::invalid_argument));
}

// Big enough that a wrong check would allocate or overflow.
TEST(FrameIo, NpyRefusesHostileHeaders) {
  const TemporaryFolder folder;
  const auto opened = [&](const std::string& content) {
    return open_source({folder.write("a.npy", content)}, {}).has_value();
  };
  const std::string magic("\x93NUMPY", 6);
  EXPECT_FALSE(opened(magic));
  EXPECT_FALSE(opened(magic + std::string("\x01\x00\xff\xff", 4)));
  EXPECT_FALSE(opened(magic + std::string("\x02\x00\xff\xff\xff\xff", 6)));
  EXPECT_FALSE(opened(magic + std::string("\x09\x00\x10\x00", 4) + std::string(16, ' ')));
  const std::array<std::uint64_t, 3> huge{1, UINT64_MAX, UINT64_MAX};
  EXPECT_FALSE(opened(make_npy_header("<f8", huge)));
  const std::array<std::uint64_t, 2> empty{3, 0};
  EXPECT_FALSE(opened(make_npy_header("<f8", empty)));
}

TEST(FrameIo, ShortFramesSayHowManyBytesAreMissing) {
  const TemporaryFolder folder;
  const std::string y4m = "YUV4MPEG2 W4 H4 F1:1 Cmono\nFRAME\n" + pattern(16) + "FRAME\n123";
  const std::string npy = make_npy_header("|u1", std::array<std::uint64_t, 2>{2, 16}) + pattern(19);
  SourceOptions raw;
  raw.pixel_format = PixelFormat::gray8;
  raw.width = 4;
  raw.height = 4;
  for (const auto& [content, options] :
       {std::pair{y4m, SourceOptions{}}, {npy, SourceOptions{}}, {pattern(19), raw}}) {
    const auto copied =
        copy_file(folder.write("a", content), Container::raw, folder.path("b"), options);
    ASSERT_TRUE(copied.failed_with(Code::corrupt));
    EXPECT_NE(to_string(copied.error()).find("frame 2 has 3 of 16 bytes, 13 are missing"),
              std::string::npos)
        << to_string(copied.error());
  }
  const std::string cut = "YUV4MPEG2 W4 H4 F1:1 Cmono\nFRAME\n" + pattern(16) + "FRA";
  EXPECT_TRUE(copy_file(folder.write("a", cut), Container::raw, folder.path("b"))
                  .failed_with(Code::corrupt));
}

TEST(FrameIo, NamesTheOptionThatHelps) {
  const TemporaryFolder folder;
  const auto remedy = [](const auto& result) { return result.error().facts()->remedy; };
  const auto unknown = open_source({folder.write("a", "what is this?")}, {});
  ASSERT_TRUE(unknown.failed_with(Code::invalid_argument));
  EXPECT_NE(remedy(unknown).find("--format and --size"), std::string::npos);
  SourceOptions size_only;
  size_only.width = size_only.height = 4;
  const auto no_format = open_source({folder.write("a", "xxxx")}, size_only);
  EXPECT_NE(remedy(no_format).find("--format"), std::string::npos);
  SourceOptions format_only;
  format_only.pixel_format = PixelFormat::rgb;
  const auto self = open_source({folder.write("a", "YUV4MPEG2 W4 H4\n")}, format_only);
  EXPECT_NE(remedy(self).find("without --format"), std::string::npos);
  const auto pipe = open_sink(Container::npy, "-", std::nullopt);
  EXPECT_NE(remedy(pipe).find("--count"), std::string::npos);
  EXPECT_TRUE(open_source({folder.write("a", "")}, {}).failed_with(Code::corrupt));
  EXPECT_TRUE(open_source({folder.path("none")}, {}).failed_with(Code::os));
}

TEST(FrameIo, AStreamOfNoFramesHasItsHeader) {
  const TemporaryFolder folder;
  const std::string y4m = "YUV4MPEG2 W4 H4 F25:1 Ip A0:0 C420jpeg\n";
  ASSERT_TRUE(copy_file(folder.write("a", y4m), Container::y4m, folder.path("b")));
  EXPECT_EQ(read_file(folder.path("b")), y4m);
  const std::string npy = make_npy_header("<f4", std::array<std::uint64_t, 3>{0, 5, 3});
  ASSERT_TRUE(copy_file(folder.write("a", npy), Container::npy, folder.path("b")));
  EXPECT_EQ(read_file(folder.path("b")), npy);
  const Format rgb = Format::image(PixelFormat::rgb, 4, 4).value();
  auto sink = open_sink(Container::y4m, folder.path("b"), std::nullopt).value();
  EXPECT_TRUE(sink->finish(rgb).failed_with(Code::invalid_argument));
  sink = open_sink(Container::raw, folder.path("b"), std::nullopt).value();
  ASSERT_TRUE(sink->finish(rgb));
  EXPECT_EQ(read_file(folder.path("b")), "");
}

TEST(FrameIo, EmptyRawFramesAreRefused) {
  const TemporaryFolder folder;
  SourceOptions raw;
  raw.pixel_format = PixelFormat::gray8;
  raw.width = raw.height = 4;
  EXPECT_TRUE(open_source({folder.write("a", "")}, raw).failed_with(Code::corrupt));
}

TEST(ByteInput, TakesLinesAndBytesFromOnePipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string content = "first\n" + pattern(5000) + "last";
  ASSERT_EQ(::write(ends[1], content.data(), content.size()), static_cast<ssize_t>(content.size()));
  ::close(ends[1]);
  ByteInput input(ends[0], "pipe");
  EXPECT_EQ(input.line().value(), "first");
  std::string body(5000, '\0');
  EXPECT_EQ(input.read(std::as_writable_bytes(std::span(body))).value(), 5000U);
  EXPECT_EQ(body, pattern(5000));
  EXPECT_EQ(input.peek(100).value().size(), 4U);
  EXPECT_TRUE(input.line().failed_with(Code::corrupt));
  EXPECT_TRUE(input.seek(0).failed_with(Code::invalid_argument));
}

TEST(ByteInput, RefusesEndlessLines) {
  const TemporaryFolder folder;
  auto input = ByteInput::open(folder.write("a", std::string(10'000, 'x'))).value();
  EXPECT_TRUE(input.line().failed_with(Code::corrupt));
}

TEST(ByteOutput, LeavesOutPadding) {
  const Format padded = Format::image(PixelFormat::rgb, 3, 2, 16).value();
  const auto runs = tight_runs(padded);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[1].offset_bytes, 16U);
  EXPECT_EQ(total_bytes(runs), 18U);
  EXPECT_EQ(tight_runs(Format::image(PixelFormat::i420, 4, 4).value()).size(), 1U);

  Format tensor = Format::tensor(DType::int16, std::array<std::uint64_t, 2>{2, 3}).value();
  EXPECT_EQ(tight_runs(tensor).size(), 1U);
  tensor.strides[0] = 8;
  tensor.payload_bytes = 22;
  const auto rows = tight_runs(tensor);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].offset_bytes, 16U);
  EXPECT_EQ(total_bytes(rows), 12U);
}

TEST(ByteOutput, ReportsAFullDisk) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "there is no /dev/full";
  auto output = ByteOutput::open("/dev/full").value();
  const auto written = output.write("text");
  ASSERT_TRUE(written.failed_with(Code::os));
  EXPECT_EQ(Result<void>(written).error().native(), ENOSPC);
}

}  // namespace
}  // namespace vramlink::cli::media
