// media: a reader for the one Python dictionary that NPY files begin with.
#include "media/npy_header.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace vramlink::cli::media {
namespace {

struct Element {
  std::string_view descr;
  DType dtype;
};

constexpr auto kElements = std::to_array<Element>({
    {"|b1", DType::boolean},
    {"|i1", DType::int8},
    {"<i2", DType::int16},
    {"<i4", DType::int32},
    {"<i8", DType::int64},
    {"|u1", DType::uint8},
    {"<u2", DType::uint16},
    {"<u4", DType::uint32},
    {"<u8", DType::uint64},
    {"<f2", DType::float16},
    {"<f4", DType::float32},
    {"<f8", DType::float64},
    {"<c8", DType::complex64},
    {"<c16", DType::complex128},
});

// Digits of the longest first axis that numpy leaves room for.
constexpr std::size_t kGrowthDigits = 21;
constexpr std::size_t kAlignment = 64;

Error corrupt_npy(const std::string& file, std::string reason) {
  return Error(Code::corrupt, "read NPY header").about(file).because(std::move(reason));
}

Error unsupported_npy(const std::string& file, std::string reason, std::string remedy) {
  return Error(Code::unsupported, "read NPY header")
      .about(file)
      .because(std::move(reason))
      .remedy(std::move(remedy));
}

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }: strings, words and tuples of
// numbers.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool take(char wanted) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  bool ahead(char wanted) {
    skip_blanks();
    return at_ < text_.size() && text_[at_] == wanted;
  }

  std::optional<std::string_view> string() {
    skip_blanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const std::size_t begin = at_ + 1;
    const std::size_t end = text_.find(text_[at_], begin);
    if (end == std::string_view::npos) return std::nullopt;
    at_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  std::string_view word() {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= 'A' && text_[at_] <= 'z') ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::optional<std::uint64_t> number() {
    skip_blanks();
    std::uint64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) return std::nullopt;
    at_ += static_cast<std::size_t>(end - begin);
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long numbers this way
    return value;
  }

  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::optional<std::vector<std::uint64_t>> parse_shape(Scanner& scanner) {
  std::vector<std::uint64_t> shape;
  if (!scanner.take('(')) return std::nullopt;
  while (!scanner.take(')')) {
    const auto number = scanner.number();
    if (!number || shape.size() > kRankMax) return std::nullopt;
    shape.push_back(*number);
    if (!scanner.take(',') && !scanner.ahead(')')) return std::nullopt;
  }
  return shape;
}

Result<NpyArray> parse_element(std::string_view descr, const std::string& file) {
  NpyArray array;
  const std::string shown(descr.substr(0, 16));
  std::string normal(descr);
  if (normal.size() >= 2 && (normal[0] == '=' || normal[0] == '<' || normal[0] == '|')) {
    normal[0] = normal.substr(2) == "1" ? '|' : '<';
  }
  for (const Element& element : kElements) {
    if (normal != element.descr) continue;
    array.dtype = element.dtype;
    array.element_bytes = bits(element.dtype) / 8;
    return array;
  }
  if (normal == "|V1" || normal == "<V2") {
    array.element_bytes = static_cast<std::uint64_t>(normal[2] - '0');
    return array;
  }
  if (!descr.empty() && descr.front() == '>') {
    return unsupported_npy(file, "its elements are big-endian (" + shown + ")",
                           "save array.astype(array.dtype.newbyteorder('<'))");
  }
  return unsupported_npy(file, "elements of type '" + shown + "' have no place in a channel",
                         "save another dtype, or array.view('u1')");
}

}  // namespace

Result<NpyArray> parse_npy_dictionary(std::string_view text, const std::string& file) {
  Scanner scanner(text);
  std::optional<std::string_view> descr;
  std::optional<bool> fortran;
  std::optional<std::vector<std::uint64_t>> shape;
  if (!scanner.take('{')) return corrupt_npy(file, "no dictionary follows the magic");
  while (!scanner.take('}')) {
    const auto key = scanner.string();
    if (!key || !scanner.take(':')) return corrupt_npy(file, "the dictionary is broken");
    if (*key == "descr") {
      if (scanner.ahead('[')) {
        return unsupported_npy(file, "its elements are records", "save one field: array['name']");
      }
      descr = scanner.string();
    } else if (*key == "fortran_order") {
      const std::string_view word = scanner.word();
      if (word == "True" || word == "False") fortran = word == "True";
    } else if (*key == "shape") {
      shape = parse_shape(scanner);
    } else {
      return corrupt_npy(file, "unknown key '" + std::string(key->substr(0, 16)) + "'");
    }
    if (!scanner.take(',') && !scanner.ahead('}'))
      return corrupt_npy(file, "the dictionary is broken");
  }
  if (!scanner.at_end()) return corrupt_npy(file, "something follows the dictionary");
  if (!descr) return corrupt_npy(file, "'descr' is missing");
  if (!fortran) return corrupt_npy(file, "'fortran_order' is missing");
  if (!shape) return corrupt_npy(file, "'shape' is missing or has too many axes");
  auto array = parse_element(*descr, file);
  if (!array) return array;
  if (*fortran && shape->size() > 1) {
    return unsupported_npy(file, "the array is in Fortran order",
                           "save np.ascontiguousarray(array)");
  }
  array->shape = *std::move(shape);
  return array;
}

std::string make_npy_header(std::string_view descr, std::span<const std::uint64_t> shape) {
  std::string text = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += " ";
    text += std::to_string(shape[i]);
    if (i + 1 < shape.size() || shape.size() == 1) text += ",";
  }
  text += "), }";
  if (!shape.empty()) {
    const std::size_t digits = std::to_string(shape[0]).size();
    text.append(kGrowthDigits - std::min(digits, kGrowthDigits), ' ');
  }
  const std::size_t unpadded = kNpyMagic.size() + 4 + text.size() + 1;
  text.append(kAlignment - unpadded % kAlignment, ' ');  // numpy pads a full 64 rather than 0
  text += '\n';
  std::string header(kNpyMagic);
  header += '\x01';
  header += '\x00';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

std::string_view npy_descr(DType dtype) noexcept {
  for (const Element& element : kElements) {
    if (element.dtype == dtype) return element.descr;
  }
  return bits(dtype) == 16 ? "|V2" : "|V1";
}

}  // namespace vramlink::cli::media
