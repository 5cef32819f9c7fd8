// The one list of error codes: names, wording, exit codes. docs/errors.md is printed from it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <vramlink/error.hpp>

namespace vramlink::base {

enum class CodeGroup : unsigned char { outcome, environment, misuse };

struct CodeRow {
  Code code;
  CodeGroup group;
  int exit_code;
  std::string_view name;    ///< as in the enum
  std::string_view phrase;  ///< as in to_string(Error)
  std::string_view meaning;
  std::string_view next;  ///< what a caller does about it
};

/// In the order of the enum's values.
[[nodiscard]] std::span<const CodeRow> code_table() noexcept;

/// The whole text of docs/errors.md.
[[nodiscard]] std::string errors_document();

}  // namespace vramlink::base
