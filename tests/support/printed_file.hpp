// Files of the tree that a test prints: compared by default, written with VRAMLINK_REGENERATE=1.
#pragma once

#include <string>
#include <string_view>

namespace vramlink::test {

/// `path` is relative to the root of the tree. Records a test failure if the file differs.
void expect_printed_file(const std::string& path, std::string_view contents);

/// The same for what stands in the file between the lines "<!-- begin: NAME ... -->" and
/// "<!-- end: NAME -->".
void expect_printed_block(const std::string& path, const std::string& name,
                          std::string_view contents);

/// The whole file, or a recorded failure and an empty string.
[[nodiscard]] std::string read_tree_file(const std::string& path);

}  // namespace vramlink::test
