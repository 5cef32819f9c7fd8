// Formats as blocks and as text. Byte 0: 0 takes the rest as a format block, 1 as the fields of
// image() and tensor(), anything else as text for the parsers.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include <vramlink/device.hpp>
#include <vramlink/format.hpp>

#include "base/log_settings.hpp"
#include "fuzz/expect.hpp"
#include "fuzz/format_oracle.hpp"
#include "wire/format_block.hpp"
#include "wire/names.hpp"

namespace vramlink {
namespace {

using Block = std::array<std::byte, wire::kFormatBlockBytes>;

void run_block(std::span<const std::uint8_t> input) {
  Block block{};
  const auto bytes = std::as_bytes(input.first(std::min(input.size(), block.size())));
  std::copy(bytes.begin(), bytes.end(), block.begin());
  const auto format = wire::decode_format(block);
  if (!format) {
    test::expect(format.error().code() == Code::corrupt);
    return;
  }
  test::expect(validate(*format).has_value());
  test::expect_inside_payload(*format);
  Block again;
  wire::encode_format(*format, again);
  test::expect(again == block);
  test::expect(!to_string(*format).empty());
}

void expect_round_trip(const Result<Format>& format) {
  if (!format) {
    test::expect(format.error().code() == Code::invalid_argument);
    return;
  }
  test::expect(validate(*format).has_value());
  test::expect_inside_payload(*format);
  Block block;
  wire::encode_format(*format, block);
  const auto decoded = wire::decode_format(block);
  test::expect(decoded ? *decoded == *format : format->payload_bytes > wire::kPayloadBytesMax);
}

void run_factories(std::span<const std::uint8_t> input) {
  std::vector<std::uint64_t> numbers(std::min<std::size_t>(input.size() / 8, 10));
  if (numbers.size() < 4) return;
  std::memcpy(numbers.data(), input.data(), numbers.size() * 8);
  expect_round_trip(
      Format::image(static_cast<PixelFormat>(numbers[0]), numbers[1], numbers[2], numbers[3]));
  expect_round_trip(Format::tensor(static_cast<DType>(numbers[0]),
                                   std::span<const std::uint64_t>(numbers).subspan(1)));
  expect_round_trip(Format::bytes(numbers[1]));
}

void run_text(std::string_view text) {
  if (const auto dtype = parse_dtype(text)) {
    test::expect(parse_dtype(name(*dtype)).value() == *dtype && bits(*dtype) > 0);
  }
  if (const auto pixel_format = parse_pixel_format(text)) {
    test::expect(parse_pixel_format(name(*pixel_format)).value() == *pixel_format);
  }
  if (const auto device = parse_device(text)) {
    test::expect(parse_device(to_string(*device)).value() == *device);
  }
  (void)wire::valid_channel_name(text);
  const auto settings = base::parse_log_settings(text);
  test::expect(settings.level <= LogLevel::trace);
  const base::LogLine line{LogLevel::warn, 0, 0, 1, text, text};
  for (const auto& printed : {base::text_line(line), base::json_line(line)}) {
    for (const char c : printed) test::expect(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
}

}  // namespace
}  // namespace vramlink

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span<const std::uint8_t> input(data + 1, size - 1);
  if (data[0] == 0) {
    vramlink::run_block(input);
  } else if (data[0] == 1) {
    vramlink::run_factories(input);
  } else {
    vramlink::run_text({reinterpret_cast<const char*>(input.data()), input.size()});
  }
  return 0;
}
