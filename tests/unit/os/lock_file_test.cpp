#include "os/lock_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "os/lock_text.hpp"
#include "os/shared_segment.hpp"
#include "os/small_file.hpp"
#include "support/child_process.hpp"
#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink {
namespace {

using os::LockFile;
using os::UniqueFd;

class Lock : public test::LeakCheck {
 protected:
  Result<LockFile> acquire() { return LockFile::acquire(path_, "cam0", {socket_}); }
  void write_file(const std::string& text) const { std::ofstream(path_) << text; }
  /// The text of an owner that is provably dead.
  static std::string dead_text() {
    LockFile::Owner owner{"cam0", os::identify_self().value()};
    owner.identity.boot_id[0] ^= 1U;
    return os::format_lock_text(owner).value();
  }
  /// Somebody who holds the lock and is not a LockFile.
  [[nodiscard]] UniqueFd hold(int kind = LOCK_EX) const {
    UniqueFd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::flock(fd.get(), kind | LOCK_NB), 0);
    return fd;
  }

  test::TemporaryDirectory directory_;
  std::string path_ = directory_ / "cam0.lock";
  std::string socket_ = directory_ / "cam0.sock";
};

TEST_F(Lock, SaysWhoOwnsTheName) {
  const LockFile lock = acquire().value();
  EXPECT_TRUE(lock);
  EXPECT_EQ(lock.path(), path_);
  const LockFile::Owner owner = LockFile::read_owner(path_).value();
  EXPECT_EQ(owner.name, "cam0");
  EXPECT_EQ(owner.identity, os::identify_self().value());
  EXPECT_TRUE(LockFile::is_locked(path_).value());
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(Lock, EndsWithItsObject) {
  {
    LockFile lock = acquire().value();
    const LockFile moved = std::move(lock);
    EXPECT_TRUE(std::filesystem::exists(path_));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  LockFile lock = acquire().value();
  lock.release();
  lock.release();
  EXPECT_FALSE(lock);
  EXPECT_FALSE(std::filesystem::exists(path_));
  lock = acquire().value();
  lock = LockFile::acquire(directory_ / "cam1.lock", "cam1", {}).value();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Lock, ASecondOwnerIsToldWhoIsFirst) {
  const LockFile lock = acquire().value();
  const auto second = acquire();
  ASSERT_TRUE(second.failed_with(Code::already_exists));
  const ErrorFacts& facts = *second.error().facts();
  EXPECT_EQ(facts.peer_pid, ::getpid());
  EXPECT_EQ(facts.subject, "cam0");
  EXPECT_NE(facts.reason.find(os::process_name(::getpid())), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(Lock, AnotherProcessOwnsItUntilItDies) {
  test::ChildProcess child([&](const test::ChildLink& parent) {
    const LockFile lock = acquire().value();
    std::ofstream(socket_) << "stale";
    parent.ready();
    parent.wait_forever();
    return 0;
  });
  child.wait_ready();
  const auto before = acquire();
  ASSERT_TRUE(before.failed_with(Code::already_exists));
  EXPECT_EQ(before.error().facts()->peer_pid, child.pid());
  child.stop();
  EXPECT_TRUE(acquire().failed_with(Code::already_exists)) << "stopped is not dead";
  child.kill();
  child.wait_until_zombie();
  EXPECT_FALSE(LockFile::is_locked(path_).value());
  const auto after = acquire();
  ASSERT_TRUE(after) << to_string(after.error());
  EXPECT_FALSE(std::filesystem::exists(socket_)) << "the stale socket was not swept";
  EXPECT_EQ(LockFile::read_owner(path_).value().identity.pid, ::getpid());
}

TEST_F(Lock, AForkedChildOfADeadOwnerDoesNotKeepTheName) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // so that the orphan is ours to wait for
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  auto orphan_lives = std::make_unique<UniqueFd>(ends[1]);
  const UniqueFd orphan_waits(ends[0]);
  test::ChildProcess owner([&](const test::ChildLink& parent) {
    const LockFile lock = acquire().value();
    std::ofstream(socket_) << "stale";
    if (::fork() == 0) {
      orphan_lives.reset();
      char byte = 0;
      (void)!::read(orphan_waits.get(), &byte, 1);
      ::_exit(0);
    }
    parent.ready();
    parent.wait_forever();
    return 0;
  });
  owner.wait_ready();
  owner.kill();
  (void)owner.wait();
  EXPECT_TRUE(LockFile::is_locked(path_).value()) << "the orphan holds the description";
  {
    const auto lock = acquire();
    ASSERT_TRUE(lock) << to_string(lock.error());
    EXPECT_FALSE(std::filesystem::exists(socket_));
    EXPECT_TRUE(acquire().failed_with(Code::already_exists));
  }
  orphan_lives.reset();
  EXPECT_GT(::waitpid(-1, nullptr, 0), 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST_F(Lock, OthersSeeTheFileWhenItSaysWhoseItIs) {
  const auto mode = [this] {
    struct stat status {};
    EXPECT_EQ(::stat(path_.c_str(), &status), 0);
    return status.st_mode & 07777U;
  };
  {
    const LockFile lock = LockFile::acquire(path_, "cam0", {}, 0640).value();
    EXPECT_EQ(mode(), 0640U);
  }
  write_file(dead_text());
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  const LockFile lock = acquire().value();
  EXPECT_EQ(mode(), 0600U) << "what another left open is closed";
}

TEST_F(Lock, WhereOthersMayEnterTheyCannotKeepTheDirectoryLocked) {
  const UniqueFd held(::open(directory_.path().c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX), 0);
  write_file(dead_text());
  ASSERT_EQ(::chmod(directory_.path().c_str(), 02750), 0);
  const UniqueFd file = hold();
  EXPECT_TRUE(acquire()) << "both locks are another's";
  struct stat guard {};
  ASSERT_EQ(::stat((directory_ / ".guard").c_str(), &guard), 0);
  EXPECT_EQ(guard.st_mode & 07777U, 0600U);
}

TEST_F(Lock, AForkedChildLeavesItAlone) {
  LockFile lock = acquire().value();
  test::ChildProcess child(
      [&](const test::ChildLink&) {
        EXPECT_TRUE(acquire().failed_with(Code::wrong_state));
        lock.release();
        EXPECT_FALSE(lock);
        return 0;
      },
      test::ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(LockFile::is_locked(path_).value());
}

TEST_F(Lock, ReleaseIsCompleteAlthoughAForkedChildLives) {
  LockFile lock = acquire().value();
  test::ChildProcess child(
      [&](const test::ChildLink& parent) {
        parent.ready();
        parent.wait_forever();
        return 0;
      },
      test::ChildKind::forked);
  child.wait_ready();
  std::filesystem::create_hard_link(path_, directory_ / "same");
  lock.release();
  EXPECT_FALSE(LockFile::is_locked(directory_ / "same").value());
  EXPECT_TRUE(acquire());
}

TEST_F(Lock, AReplacedFileIsNotUnlinked) {
  LockFile lock = acquire().value();
  std::filesystem::remove(path_);
  const LockFile second = acquire().value();
  lock.release();
  EXPECT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(acquire().failed_with(Code::already_exists));
}

TEST_F(Lock, AnyContentWithoutALockIsTakenOver) {
  for (const std::string& text : {std::string(), std::string("garbage"), dead_text(),
                                  std::string(5000, 'x'), std::string("\0\0\0", 3)}) {
    write_file(text);
    const auto lock = acquire();
    ASSERT_TRUE(lock) << to_string(lock.error());
    EXPECT_EQ(LockFile::read_owner(path_).value().identity.pid, ::getpid());
  }
}

TEST_F(Lock, AHolderThatSaysNothingIsRespected) {
  for (const std::string& text : {std::string(), std::string("garbage")}) {
    write_file(text);
    const UniqueFd holder = hold();
    const auto lock = acquire();
    ASSERT_TRUE(lock.failed_with(Code::already_exists));
    EXPECT_EQ(lock.error().facts()->peer_pid, 0);
    EXPECT_TRUE(std::filesystem::exists(path_));
  }
}

TEST_F(Lock, AHolderOfAnotherPidNamespaceIsRespected) {
  LockFile::Owner owner{"cam0", os::identify_self().value()};
  ++owner.identity.pid_namespace;
  write_file(os::format_lock_text(owner).value());
  const UniqueFd holder = hold();
  const auto lock = acquire();
  ASSERT_TRUE(lock.failed_with(Code::already_exists));
  EXPECT_EQ(lock.error().facts()->peer_pid, 0);
  EXPECT_NE(lock.error().facts()->reason.find("another pid namespace"), std::string::npos);
}

TEST_F(Lock, TheDeadAreSucceededOnlyUnderTheDirectorysLock) {
  // Once with a lock that somebody holds, once with a free one. Else two successors, one that
  // writes and one that unlinks, could both win.
  const std::string free_path = directory_ / "free.lock";
  const std::string text = dead_text();
  write_file(text);
  std::ofstream(free_path) << text;
  const UniqueFd holder = hold();
  const UniqueFd directory(::open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_EQ(::flock(directory.get(), LOCK_EX), 0);
  std::thread other(
      [&] { EXPECT_TRUE(LockFile::acquire(free_path, "free", {}).failed_with(Code::timed_out)); });
  EXPECT_TRUE(acquire().failed_with(Code::timed_out));
  other.join();
  EXPECT_EQ(os::read_small_file(path_).value(), text);
  EXPECT_EQ(os::read_small_file(free_path).value(), text);
  ASSERT_EQ(::flock(directory.get(), LOCK_UN), 0);
  EXPECT_TRUE(acquire());
  EXPECT_TRUE(LockFile::acquire(free_path, "free", {}));
}

TEST_F(Lock, WhatIsNoFileIsCorrupt) {
  const auto expect_corrupt = [&](const char* what) {
    EXPECT_TRUE(acquire().failed_with(Code::corrupt)) << what;
    EXPECT_TRUE(LockFile::read_owner(path_).failed_with(Code::corrupt)) << what;
    EXPECT_TRUE(LockFile::is_locked(path_).failed_with(Code::corrupt)) << what;
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::symlink_status(path_)));
    std::filesystem::remove(path_);
  };
  std::filesystem::create_directory(path_);
  expect_corrupt("directory");
  std::ofstream(directory_ / "target") << "x";
  std::filesystem::create_symlink(directory_ / "target", path_);
  expect_corrupt("link");
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  expect_corrupt("pipe");
}

TEST_F(Lock, MissingAndMeaninglessFilesAreTold) {
  EXPECT_TRUE(LockFile::read_owner(path_).failed_with(Code::not_found));
  EXPECT_TRUE(LockFile::is_locked(path_).failed_with(Code::not_found));
  EXPECT_TRUE(LockFile::acquire(directory_ / "no/x.lock", "x", {}).failed_with(Code::not_found));
  write_file("garbage");
  EXPECT_TRUE(LockFile::read_owner(path_).failed_with(Code::corrupt));
  EXPECT_FALSE(LockFile::is_locked(path_).value());
  EXPECT_TRUE(LockFile::acquire(path_, "two\nlines", {}).failed_with(Code::invalid_argument));
  const LockFile none;
  EXPECT_FALSE(none);
}

TEST_F(Lock, WhatCannotBeSweptGivesTheNameBack) {
  std::filesystem::create_directory(socket_);
  const auto lock = acquire();
  ASSERT_TRUE(lock.failed_with(Code::os));
  EXPECT_EQ(lock.error().facts()->subject, socket_);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Lock, WhatCannotBeWrittenGivesTheNameBack) {
  test::ChildProcess child([&](const test::ChildLink&) {
    test::limit_file_size(0);
    EXPECT_TRUE(acquire().failed_with(Code::resource_exhausted));
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Lock, LimitOfDescriptorsIsAnError) {
  for (const int spare_count : {0, 1}) {
    write_file(dead_text());
    const test::FileLimit limit(spare_count);
    EXPECT_TRUE(acquire().failed_with(Code::resource_exhausted)) << spare_count;
  }
}

TEST_F(Lock, LookingDoesNotKeepAnOwnerOut) {
  test::ChildProcess observer([&](const test::ChildLink& parent) {
    parent.ready();
    for (;;) {
      (void)LockFile::is_locked(path_);
      (void)LockFile::read_owner(path_);
    }
    return 0;
  });
  observer.wait_ready();
  for (int round = 0; round < 300; ++round) {
    const auto lock = acquire();
    ASSERT_TRUE(lock) << round << ": " << to_string(lock.error());
  }
}

/// Owners come and go, some by dying, some leaving a forked child: never two at a time.
TEST_F(Lock, OneOwnerAtATime) {
  constexpr int kRounds = 40;
  const os::SharedSegment segment = os::SharedSegment::create("vramlink-test", 4096).value();
  const os::Mapping mapping = segment.map(os::Access::read_write, os::Inherit::yes).value();
  auto* owner_pid = new (mapping.data()) std::atomic<pid_t>(0);
  const auto contend = [&](const test::ChildLink& parent) {
    (void)parent.wait_go();
    for (int round = 0; round < kRounds;) {
      auto lock = acquire();
      if (!lock) {
        if (lock.failed_with(Code::already_exists)) continue;
        ADD_FAILURE() << to_string(lock.error());
        return 1;
      }
      // Only a victim leaves its pid here. A dying process gives its lock back a moment before it
      // is seen to be dead.
      const pid_t before = owner_pid->exchange(::getpid());
      if (before != 0) {
        const auto displaced = os::open_pidfd(before);
        while (displaced && !os::pidfd_exited(displaced->get())) {
        }
      }
      ++round;
      const pid_t expected = ::getpid();
      pid_t seen = expected;
      if (!owner_pid->compare_exchange_strong(seen, 0)) return 2;
    }
    return 0;
  };
  constexpr int kContenderCount = 3;
  std::vector<std::unique_ptr<test::ChildProcess>> children;
  children.reserve(kContenderCount);
  for (int i = 0; i < kContenderCount; ++i)
    children.push_back(std::make_unique<test::ChildProcess>(contend));
  for (auto& child : children) child->go();
  for (int victim = 0; victim < 10; ++victim) {
    test::ChildProcess child([&](const test::ChildLink& parent) {
      auto lock = acquire();
      while (!lock) lock = acquire();
      owner_pid->store(::getpid());
      parent.ready();
      parent.wait_forever();
      return 0;
    });
    child.wait_ready();
    for (int look = 0; look < 100; ++look) {
      EXPECT_EQ(owner_pid->load(), child.pid()) << "displaced although it lives";
      std::this_thread::yield();
    }
    child.kill();
    (void)child.wait();
  }
  for (auto& child : children) EXPECT_EQ(child->wait(), 0);
}

}  // namespace
}  // namespace vramlink
