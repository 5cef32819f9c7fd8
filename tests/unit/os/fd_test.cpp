#include "os/fd.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"

namespace vramlink {
namespace {

using os::UniqueFd;

bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

class Fd : public test::LeakCheck {};

TEST_F(Fd, ClosesWhatItOwns) {
  int raw = -1;
  {
    const auto event = os::event_fd();
    ASSERT_TRUE(event);
    raw = event->get();
    EXPECT_NE(::fcntl(raw, F_GETFD), -1);
  }
  EXPECT_EQ(::fcntl(raw, F_GETFD), -1);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(Fd, DuplicateIsTheSameFileAndClosesOnExec) {
  const auto event = os::event_fd();
  ASSERT_TRUE(event);
  const auto copy = os::duplicate(event->get());
  ASSERT_TRUE(copy);
  EXPECT_NE(copy->get(), event->get());
  EXPECT_EQ(::fcntl(copy->get(), F_GETFD), FD_CLOEXEC);
  os::signal_event(event->get());
  EXPECT_TRUE(is_readable(copy->get()));
}

TEST_F(Fd, DuplicateOfNothingFails) {
  const auto copy = os::duplicate(-1);
  ASSERT_TRUE(copy.failed_with(Code::os));
  EXPECT_EQ(copy.error().native(), EBADF);
}

TEST_F(Fd, LimitOfDescriptorsIsNamed) {
  const auto event = os::event_fd();
  ASSERT_TRUE(event);
  const test::FileLimit limit;
  const auto copy = os::duplicate(event->get());
  ASSERT_TRUE(copy.failed_with(Code::resource_exhausted));
  ASSERT_NE(copy.error().facts(), nullptr);
  EXPECT_EQ(copy.error().facts()->numbers[0], test::FileLimit::current());
  EXPECT_TRUE(os::event_fd().failed_with(Code::resource_exhausted));
}

TEST_F(Fd, EventIsReadableBetweenSignalAndDrain) {
  const auto event = os::event_fd();
  ASSERT_TRUE(event);
  EXPECT_FALSE(is_readable(event->get()));
  os::signal_event(event->get());
  os::signal_event(event->get());
  EXPECT_TRUE(is_readable(event->get()));
  os::drain_event(event->get());
  EXPECT_FALSE(is_readable(event->get()));
  os::drain_event(event->get());  // does not block
  EXPECT_FALSE(is_readable(event->get()));
}

TEST_F(Fd, FullEventStaysReadable) {
  const auto event = os::event_fd();
  ASSERT_TRUE(event);
  const std::uint64_t greatest = UINT64_MAX - 1;
  ASSERT_EQ(::write(event->get(), &greatest, sizeof(greatest)), 8);
  os::signal_event(event->get());  // does not block
  EXPECT_TRUE(is_readable(event->get()));
}

}  // namespace
}  // namespace vramlink
