// cli: the words of --help that no option carries.
#pragma once

#include <span>
#include <string_view>

namespace vramlink::cli {

struct HelpText {
  std::string_view command;   ///< "" for the command itself
  std::string_view examples;  ///< two lines or more, each with a newline
  std::string_view usage;     ///< what follows "vramlink "
  std::string_view summary;   ///< one line
  std::string_view details;   ///< lines with newlines; may be empty
};

[[nodiscard]] std::span<const HelpText> help_texts() noexcept;
/// Null for names that are no commands.
[[nodiscard]] const HelpText* find_help(std::string_view command) noexcept;

}  // namespace vramlink::cli
