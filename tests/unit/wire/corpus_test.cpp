// The seeds in tests/fuzz/corpus are today's valid messages, segments and formats.
#include <gtest/gtest.h>

#include "support/printed_file.hpp"
#include "support/sample_messages.hpp"
#include "support/sample_segments.hpp"

namespace vramlink::wire {
namespace {

std::string text_of_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class M>
void expect_message_seed() {
  M message = test::sample<M>();
  const std::uint32_t fds = expected_fd_count(message);
  const char type = static_cast<char>(MessageTraits<M>::kType);
  test::expect_printed_file(
      std::string("tests/fuzz/corpus/messages/") + MessageTraits<M>::kName,
      std::string{static_cast<char>(fds), type} + text_of_bytes(encode(message)));
}

TEST(FuzzCorpus, HoldsEveryMessage) {
#define VRAMLINK_X(Struct, enumerator, number, fd_min, fd_max) expect_message_seed<Struct>();
  VRAMLINK_WIRE_MESSAGES(VRAMLINK_X)
#undef VRAMLINK_X
}

Format small_tensor() {
  return Format::tensor(DType::bfloat16, std::array<std::uint64_t, 3>{3, 4, 5}).value();
}

TEST(FuzzCorpus, HoldsSegmentHeads) {
  const auto broadcast = test::sample_broadcast(Format::image(PixelFormat::nv12, 64, 48).value());
  const std::span<const std::byte> bytes = broadcast->bytes;
  test::expect_printed_file("tests/fuzz/corpus/segment_headers/broadcast",
                            std::string(1, '\0') + text_of_bytes(bytes.first(56)) +
                                text_of_bytes(bytes.subspan(256, kFormatBlockBytes)));
  const auto own = test::sample_private();
  test::expect_printed_file(
      "tests/fuzz/corpus/segment_headers/private",
      std::string(1, '\1') + text_of_bytes(std::span<const std::byte>(own->bytes).first(48)));
}

void expect_format_seed(const std::string& name, const Format& format) {
  std::array<std::byte, kFormatBlockBytes> block;
  encode_format(format, block);
  test::expect_printed_file("tests/fuzz/corpus/format/" + name,
                            std::string(1, '\0') + text_of_bytes(block));
}

TEST(FuzzCorpus, HoldsFormats) {
  expect_format_seed("tensor", small_tensor());
  expect_format_seed("bytes", Format::bytes(4096).value());
  expect_format_seed("rgba", Format::image(PixelFormat::rgba, 33, 7, 256).value());
  expect_format_seed("i420", Format::image(PixelFormat::i420, 33, 7).value());
  const std::array<std::uint64_t, 4> numbers = {5, 640, 480, 64};
  test::expect_printed_file(
      "tests/fuzz/corpus/format/factories",
      std::string(1, '\1') + text_of_bytes(std::as_bytes(std::span(numbers))));
  for (const std::string text : {"torch.float32", "yuv420p",
                                 "GPU-00112233-4455-6677-8899-aabbccddeeff", "info,file=x,json"}) {
    test::expect_printed_file("tests/fuzz/corpus/format/text_" + text.substr(0, 4), "\2" + text);
  }
}

}  // namespace
}  // namespace vramlink::wire
