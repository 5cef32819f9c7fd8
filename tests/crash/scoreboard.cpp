#include "scoreboard.hpp"

#include <fcntl.h>

#include <utility>

namespace vramlink::test {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

SharedScoreboard SharedScoreboard::create() {
  auto segment = os::SharedSegment::create("scoreboard", sizeof(Scoreboard)).value();
  auto mapping = segment.map(os::Access::read_write).value();
  return {std::move(segment), std::move(mapping)};
}

SharedScoreboard SharedScoreboard::adopt(int fd) {
  auto segment = os::SharedSegment::adopt(os::UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)),
                                          sizeof(Scoreboard), sizeof(Scoreboard), 0)
                     .value();
  auto mapping = segment.map(os::Access::read_write).value();
  return {std::move(segment), std::move(mapping)};
}

}  // namespace vramlink::test
