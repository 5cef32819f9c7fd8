#include "support/printed_file.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace vramlink::test {
namespace {

std::filesystem::path in_tree(const std::string& path) {
  return std::filesystem::path(VRAMLINK_SOURCE_DIR) / path;
}

}  // namespace

std::string read_tree_file(const std::string& path) {
  std::ifstream file(in_tree(path), std::ios::binary);
  EXPECT_TRUE(file) << path << " cannot be read";
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void expect_printed_file(const std::string& path, std::string_view contents) {
  if (std::getenv("VRAMLINK_REGENERATE")) {
    std::filesystem::create_directories(in_tree(path).parent_path());
    std::ofstream(in_tree(path), std::ios::binary) << contents;
  }
  // Not EXPECT_EQ: the files may be binary.
  EXPECT_TRUE(read_tree_file(path) == contents)
      << path << " is not what the code prints. Run this test with VRAMLINK_REGENERATE=1.";
}

void expect_printed_block(const std::string& path, const std::string& name,
                          std::string_view contents) {
  const std::string text = read_tree_file(path);
  const std::size_t begin = text.find("<!-- begin: " + name + " ");
  const std::size_t start = text.find('\n', begin) + 1;
  const std::size_t end = text.find("<!-- end: " + name + " -->", start);
  ASSERT_TRUE(begin != std::string::npos && end != std::string::npos) << path << ": " << name;
  expect_printed_file(path, text.substr(0, start) + std::string(contents) + text.substr(end));
}

}  // namespace vramlink::test
