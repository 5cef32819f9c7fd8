// base: formats as text, and text as formats.
#include <algorithm>
#include <string>

#include <vramlink/format.hpp>

#include "base/edit_distance.hpp"
#include "base/format_table.hpp"

namespace vramlink::inline v0 {
namespace {

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
  std::string copy(text);
  std::transform(copy.begin(), copy.end(), copy.begin(), [](char c) { return lower(c); });
  return copy;
}

// Applies `visit` to the name and the aliases of a row.
template <class Row, class Visit>
void for_each_name(const Row& row, Visit visit) {
  visit(row.name);
  for (const std::string_view alias : row.aliases) {
    if (!alias.empty()) visit(alias);
  }
}

template <class Row>
const Row* find_name(std::span<const Row> rows, std::string_view text, bool any_case) {
  const std::string wanted = any_case ? lower(text) : std::string(text);
  for (const Row& row : rows) {
    bool found = false;
    for_each_name(row, [&](std::string_view each) {
      found = found || (any_case ? lower(each) : std::string(each)) == wanted;
    });
    if (found) return &row;
  }
  return nullptr;
}

// Empty if nothing is near enough to be a typing mistake.
template <class Row>
std::string_view nearest_name(std::span<const Row> rows, std::string_view text) {
  constexpr std::size_t kFar = 7;
  const std::string wanted = lower(text.substr(0, 64));
  std::string_view best;
  std::size_t best_distance = std::min(wanted.size(), kFar);
  for (const Row& row : rows) {
    for_each_name(row, [&](std::string_view each) {
      const std::size_t longer = std::max(wanted.size(), each.size());
      const std::size_t shorter = std::min(wanted.size(), each.size());
      if (longer - shorter >= best_distance) return;  // at least that many insertions
      const std::size_t distance = base::edit_distance(wanted, lower(each));
      if (distance < best_distance) {
        best_distance = distance;
        best = row.name;
      }
    });
  }
  return best;
}

template <class Row>
Error unknown_name(const char* operation, const char* reason, std::span<const Row> rows,
                   std::string_view text) {
  const std::string_view nearest = nearest_name(rows, text);
  return Error(Code::invalid_argument, operation)
      .about(text.substr(0, 64))
      .because(reason)
      .remedy(nearest.empty() ? "a name such as '" + std::string(rows.front().name) + "'"
                              : "'" + std::string(nearest) + "'");
}

// "torch.float32" and numpy's byte order marks for what this machine has anyway.
std::string_view without_decoration(std::string_view text) noexcept {
  for (const std::string_view prefix : {"torch.", "numpy.", "np.", "jnp."}) {
    if (text.substr(0, prefix.size()) == prefix) return text.substr(prefix.size());
  }
  if (text.size() > 1 && (text[0] == '<' || text[0] == '|' || text[0] == '=')) {
    return text.substr(1);
  }
  return text;
}

}  // namespace

std::uint32_t bits(DType dtype) noexcept {
  const base::DTypeRow* row = base::find(dtype);
  return row ? row->bits : 0;
}

std::string_view name(DType dtype) noexcept {
  const base::DTypeRow* row = base::find(dtype);
  return row ? row->name : "unknown";
}

std::string_view name(PixelFormat pixel_format) noexcept {
  if (pixel_format == PixelFormat::none) return "none";
  const base::PixelRow* row = base::find(pixel_format);
  return row ? row->name : "unknown";
}

std::string_view name(ColorMatrix matrix) noexcept {
  switch (matrix) {
    case ColorMatrix::rgb:
      return "rgb";
    case ColorMatrix::bt601:
      return "bt601";
    case ColorMatrix::bt709:
      return "bt709";
    case ColorMatrix::bt2020:
      return "bt2020";
    case ColorMatrix::unknown:
      break;
  }
  return "unknown";
}

Result<DType> parse_dtype(std::string_view text) {
  if (const auto* row = find_name(base::dtype_table(), without_decoration(text), false)) {
    return row->dtype;
  }
  return unknown_name("parse dtype", "no such element type", base::dtype_table(),
                      without_decoration(text));
}

Result<PixelFormat> parse_pixel_format(std::string_view text) {
  if (const auto* row = find_name(base::pixel_table(), text, true)) return row->pixel_format;
  return unknown_name("parse pixel format", "no such pixel format", base::pixel_table(), text);
}

std::string to_string(const Format& format) {
  if (format.pixel_format != PixelFormat::none) {
    return std::string(name(format.pixel_format)) + " " + std::to_string(format.width) + "x" +
           std::to_string(format.height);
  }
  std::string text(name(format.dtype));
  text += " [";
  const std::size_t rank = std::min(format.rank, kRankMax);
  for (std::size_t i = 0; i < rank; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(format.shape[i]);
  }
  return text += "]";
}

}  // namespace vramlink::inline v0
