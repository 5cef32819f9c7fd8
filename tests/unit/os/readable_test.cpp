#include "os/readable.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>

namespace vramlink::test {
namespace {

constexpr std::size_t kPage = 4096;

TEST(Readable, TellsWhatIsMappedFromWhatIsNot) {
  std::array<std::byte, 3> bytes{};
  EXPECT_TRUE(os::is_readable(bytes.data(), bytes.size()));
  EXPECT_TRUE(os::is_readable(nullptr, 0));
  EXPECT_FALSE(os::is_readable(nullptr, 1));
  void* pages = ::mmap(nullptr, 3 * kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* const data = static_cast<std::byte*>(pages);
  ASSERT_EQ(::mprotect(data + 2 * kPage, kPage, PROT_NONE), 0);
  EXPECT_TRUE(os::is_readable(data, 2 * kPage));
  EXPECT_FALSE(os::is_readable(data, 2 * kPage + 1));
  EXPECT_FALSE(os::is_readable(data + 2 * kPage, 1));
  ASSERT_EQ(::munmap(pages, 3 * kPage), 0);
  EXPECT_FALSE(os::is_readable(data, 1));
}

}  // namespace
}  // namespace vramlink::test
