// Files of a test, gone when it ends.
#pragma once

#include <string>
#include <string_view>

namespace vramlink::test {

class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  /// The path of a name in it.
  [[nodiscard]] std::string path(std::string_view name) const;
  /// Writes a file and returns its path.
  [[nodiscard]] std::string write(std::string_view name, std::string_view content) const;

 private:
  std::string path_;
};

[[nodiscard]] std::string read_file(const std::string& path);

}  // namespace vramlink::test
