#include "os/errno.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

namespace vramlink {
namespace {

using os::from_errno;

struct Row {
  int error_number;
  Code code;
};

TEST(Errno, EveryNumberHasItsCode) {
  constexpr Row kRows[] = {
      {EACCES, Code::permission_denied},
      {EPERM, Code::permission_denied},
      {EROFS, Code::permission_denied},
      {ENOENT, Code::not_found},
      {EEXIST, Code::already_exists},
      {EADDRINUSE, Code::already_exists},
      {EMFILE, Code::resource_exhausted},
      {ENFILE, Code::resource_exhausted},
      {ENOSPC, Code::resource_exhausted},
      {EDQUOT, Code::resource_exhausted},
      {EFBIG, Code::resource_exhausted},
      {ENOBUFS, Code::resource_exhausted},
      {ETOOMANYREFS, Code::resource_exhausted},
      {ENOMEM, Code::out_of_memory},
      {ECONNREFUSED, Code::peer_gone},
      {EPIPE, Code::peer_gone},
      {ECONNRESET, Code::peer_gone},
      {ENOTCONN, Code::peer_gone},
      {ESRCH, Code::peer_gone},
      {ETIMEDOUT, Code::timed_out},
      {ENOSYS, Code::unsupported},
      {EOPNOTSUPP, Code::unsupported},
      {ENOPROTOOPT, Code::unsupported},
      {EINVAL, Code::os},
      {EBADF, Code::os},
      {EIO, Code::os},
  };
  for (const Row& row : kRows) {
    const Error error = from_errno("call", row.error_number);
    EXPECT_EQ(error.code(), row.code) << row.error_number;
    EXPECT_EQ(error.origin(), Origin::os);
    EXPECT_EQ(error.native(), row.error_number);
    EXPECT_STREQ(error.operation(), "call");
  }
}

TEST(Errno, TakesErrnoAndThePlaceOfTheCall) {
  errno = ENOENT;
  const Error error = from_errno("open");
  EXPECT_EQ(error.code(), Code::not_found);
  EXPECT_EQ(error.line(), static_cast<std::uint32_t>(__LINE__ - 2));
  EXPECT_STREQ(error.file(), __FILE__);
}

TEST(Errno, OutcomesHaveNoFacts) {
  EXPECT_EQ(from_errno("send", EPIPE).facts(), nullptr);
  EXPECT_EQ(from_errno("wait", ETIMEDOUT).facts(), nullptr);
}

TEST(Errno, ReasonIsTheTextOfTheNumber) {
  const Error known = from_errno("open", EACCES);
  ASSERT_NE(known.facts(), nullptr);
  EXPECT_EQ(known.facts()->reason, "Permission denied");
  const Error unknown = from_errno("open", 4000);
  ASSERT_NE(unknown.facts(), nullptr);
  EXPECT_EQ(unknown.facts()->reason, "errno 4000");
}

TEST(Errno, OfAFileSaysWhatToDoAboutItsDirectory) {
  for (const int number : {EACCES, EPERM, EROFS, ENOSPC, EDQUOT, EMFILE}) {
    const Error error = os::from_errno_at("/run/x/cam0.lock", "open", number);
    EXPECT_EQ(error.code(), from_errno("open", number).code());
    EXPECT_EQ(error.line(), static_cast<std::uint32_t>(__LINE__ - 2));
    ASSERT_NE(error.facts(), nullptr);
    EXPECT_EQ(error.facts()->subject, "/run/x/cam0.lock");
    EXPECT_FALSE(error.facts()->remedy.empty()) << number;
  }
  const Error missing = os::from_errno_at("/run/x/cam0.lock", "open", ENOENT);
  EXPECT_TRUE(missing.facts()->remedy.empty()) << "part of normal work";
}

TEST(Errno, TooManyFilesNamesTheLimit) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const Error error = from_errno("open", EMFILE);
  ASSERT_NE(error.facts(), nullptr);
  EXPECT_EQ(error.facts()->numbers[0], limit.rlim_cur);
  EXPECT_EQ(error.facts()->numbers[1], limit.rlim_max);
  EXPECT_NE(error.facts()->remedy.find("RLIMIT_NOFILE"), std::string::npos);
  EXPECT_NE(error.facts()->remedy.find(std::to_string(limit.rlim_cur)), std::string::npos);
}

}  // namespace
}  // namespace vramlink
