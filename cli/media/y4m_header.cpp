// media: parsing and making of Y4M header lines.
#include "media/y4m_header.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include <vramlink/channel.hpp>

namespace vramlink::cli::media {
namespace {

struct Sampling {
  std::string_view tag;
  PixelFormat pixel_format;
};

// The first tag of a format is the one that make_y4m_header writes.
constexpr auto kSamplings = std::to_array<Sampling>({
    {"420jpeg", PixelFormat::i420},
    {"420mpeg2", PixelFormat::i420},
    {"420paldv", PixelFormat::i420},
    {"420", PixelFormat::i420},
    {"422", PixelFormat::y42b},
    {"444", PixelFormat::y444},
    {"mono", PixelFormat::gray8},
});

Error corrupt_y4m(const std::string& file, std::string reason) {
  return Error(Code::corrupt, "read Y4M header").about(file).because(std::move(reason));
}

Error unsupported_y4m(const std::string& file, std::string reason, std::string remedy) {
  return Error(Code::unsupported, "read Y4M header")
      .about(file)
      .because(std::move(reason))
      .remedy(std::move(remedy));
}

// Decimal digits and nothing else.
template <class Number>
bool parse_number(std::string_view text, Number& number) {
  if (text.empty() || text.front() == '+' || text.front() == '-') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool parse_ratio(std::string_view text, std::uint32_t& numerator, std::uint32_t& denominator) {
  const std::size_t colon = text.find(':');
  return colon != std::string_view::npos && parse_number(text.substr(0, colon), numerator) &&
         parse_number(text.substr(colon + 1), denominator);
}

// Calls visit(parameter) for each parameter after the first word; ends early when it says false.
template <class Visit>
void for_each_parameter(std::string_view line, Visit visit) {
  std::size_t at = line.find(' ');
  while (at != std::string_view::npos) {
    const std::size_t begin = at + 1;
    at = line.find(' ', begin);
    const std::string_view parameter = line.substr(begin, at - begin);
    if (!parameter.empty() && !visit(parameter)) return;
  }
}

std::optional<Error> check_interlacing(std::string_view value, const std::string& file) {
  if (value == "p" || value == "?") return std::nullopt;
  return unsupported_y4m(file,
                         "the video is interlaced (I" + std::string(value.substr(0, 16)) + ")",
                         "ffmpeg -i INPUT -vf yadif -f yuv4mpegpipe - | vramlink pub NAME -");
}

Result<PixelFormat> parse_sampling(std::string_view tag, const std::string& file) {
  const auto* found = std::find_if(kSamplings.begin(), kSamplings.end(),
                                   [tag](const Sampling& each) { return each.tag == tag; });
  if (found != kSamplings.end()) return found->pixel_format;
  return unsupported_y4m(
      file, "sampling C" + std::string(tag.substr(0, 32)) + " is not 8-bit 420, 422, 444 or mono",
      "ffmpeg -i INPUT -pix_fmt yuv420p -f yuv4mpegpipe - | vramlink pub NAME -");
}

struct Fields {
  std::uint64_t width = 0;
  std::uint64_t height = 0;
  std::uint32_t rate_numerator = 0;
  std::uint32_t rate_denominator = 0;
  PixelFormat pixel_format = PixelFormat::i420;
  ColorRange range = ColorRange::unknown;
};

std::optional<Error> take_parameter(std::string_view parameter, Fields& fields,
                                    const std::string& file) {
  const std::string_view value = parameter.substr(1);
  bool good = true;
  switch (parameter.front()) {
    case 'W':
      good = parse_number(value, fields.width);
      break;
    case 'H':
      good = parse_number(value, fields.height);
      break;
    case 'F':
      good = parse_ratio(value, fields.rate_numerator, fields.rate_denominator) &&
             (fields.rate_denominator != 0 || fields.rate_numerator == 0);
      break;
    case 'I':
      return check_interlacing(value, file);
    case 'C': {
      auto sampling = parse_sampling(value, file);
      if (!sampling) return std::move(sampling).error();
      fields.pixel_format = *sampling;
      break;
    }
    case 'X':
      if (value == "COLORRANGE=FULL") fields.range = ColorRange::full;
      if (value == "COLORRANGE=LIMITED") fields.range = ColorRange::limited;
      break;
    default:  // A, the shape of a pixel, and what may come one day: carried as text.
      break;
  }
  if (good) return std::nullopt;
  return corrupt_y4m(file, "parameter '" + std::string(parameter.substr(0, 32)) + "' is no number");
}

std::string rate_parameter(const Format& format) {
  if (format.rate_numerator == 0) return "F0:0";
  return "F" + std::to_string(format.rate_numerator) + ":" +
         std::to_string(format.rate_denominator);
}

// The same line with another rate.
std::string with_rate(std::string_view line, const Format& format) {
  std::string text(line.substr(0, line.find(' ')));
  for_each_parameter(line, [&](std::string_view parameter) {
    text.append(" ");
    text.append(parameter.front() == 'F' ? rate_parameter(format) : std::string(parameter));
    return true;
  });
  return text;
}

bool printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 32 && c != 127; });
}

}  // namespace

Result<Format> parse_y4m_header(std::string_view line, const std::string& file) {
  if (line.substr(0, line.find(' ')) != kY4mMagic) {
    return corrupt_y4m(file, "it does not begin with " + std::string(kY4mMagic));
  }
  Fields fields;
  std::optional<Error> fault;
  for_each_parameter(line, [&](std::string_view parameter) {
    fault = take_parameter(parameter, fields, file);
    return !fault.has_value();
  });
  if (fault) return *std::move(fault);
  if (fields.width == 0) return corrupt_y4m(file, "the width (W) is missing or 0");
  if (fields.height == 0) return corrupt_y4m(file, "the height (H) is missing or 0");
  auto format = Format::image(fields.pixel_format, fields.width, fields.height);
  if (!format) return corrupt_y4m(file, "the picture is too large");
  format->color_range = fields.range;
  format->rate_numerator = fields.rate_numerator;
  format->rate_denominator = std::max(fields.rate_denominator, std::uint32_t{1});
  return format;
}

Result<std::string> make_y4m_header(const Format& format) {
  PixelFormat kind = format.pixel_format;
  // The writer brings these into the order of planes that Y4M has.
  if (kind == PixelFormat::yv12 || kind == PixelFormat::nv12 || kind == PixelFormat::nv21) {
    kind = PixelFormat::i420;
  }
  const auto* sampling = std::find_if(kSamplings.begin(), kSamplings.end(),
                                      [kind](auto& each) { return each.pixel_format == kind; });
  if (sampling == kSamplings.end()) {
    return Error(Code::invalid_argument, "write Y4M")
        .because("Y4M cannot hold " + to_string(format))
        .remedy(format.plane_count == 0 ? "--npy FILE" : "--raw FILE or --npy FILE");
  }
  std::string text(kY4mMagic);
  text.append(" W").append(std::to_string(format.width));
  text.append(" H").append(std::to_string(format.height));
  text.append(" ").append(rate_parameter(format)).append(" Ip A0:0 C").append(sampling->tag);
  if (format.color_range == ColorRange::full) text.append(" XCOLORRANGE=FULL");
  if (format.color_range == ColorRange::limited) text.append(" XCOLORRANGE=LIMITED");
  return text;
}

std::string Y4mNote::pack(bool& shortened) const {
  std::string head = header;
  std::string parameters = frame_parameters;
  const auto size = [&] { return head.size() + (parameters.empty() ? 0 : 1 + parameters.size()); };
  while (size() > kUserDataBytesMax) {
    shortened = true;
    const std::size_t comment = head.rfind(" X");
    if (comment != std::string::npos) {
      const std::size_t end = head.find(' ', comment + 1);
      head.erase(comment, end == std::string::npos ? end : end - comment);
    } else if (!parameters.empty()) {
      parameters.clear();
    } else {
      return {};
    }
  }
  return parameters.empty() ? head : head + "\n" + parameters;
}

std::optional<Y4mNote> Y4mNote::unpack(std::span<const std::byte> user_data, const Format& format) {
  const std::string_view text(reinterpret_cast<const char*>(user_data.data()), user_data.size());
  const std::size_t newline = text.find('\n');
  const std::string_view header = text.substr(0, newline);
  const std::string_view parameters =
      newline == std::string_view::npos ? std::string_view() : text.substr(newline + 1);
  if (!printable(header) || !printable(parameters)) return std::nullopt;
  if (!parameters.empty() && parameters.front() != ' ') return std::nullopt;
  auto described = parse_y4m_header(header, "user data");
  if (!described || described->pixel_format != format.pixel_format ||
      described->width != format.width || described->height != format.height) {
    return std::nullopt;
  }
  Y4mNote note{std::string(header), std::string(parameters)};
  const bool same_rate = described->rate_numerator == format.rate_numerator &&
                         described->rate_denominator == format.rate_denominator;
  if (!same_rate) note.header = with_rate(header, format);
  return note;
}

}  // namespace vramlink::cli::media
