#include <gtest/gtest.h>

#include "base/error_table.hpp"
#include "support/printed_file.hpp"

namespace vramlink {
namespace {

TEST(ErrorsDocument, IsWhatTheTablePrints) {
  test::expect_printed_file("docs/errors.md", base::errors_document());
}

}  // namespace
}  // namespace vramlink
