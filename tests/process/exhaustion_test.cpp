// Too little of something: descriptors, memory, disk, rights. A clear error, and nobody else
// suffers.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include <vramlink/channel.hpp>

#include "os/threads.hpp"
#include "support/child_process.hpp"
#include "support/frame_pattern.hpp"
#include "support/leak_check.hpp"
#include "support/temporary_directory.hpp"

namespace vramlink::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kSkipped = 77;
const char* const kName = "scarce";

class Exhaustion : public LeakCheck {
 protected:
  Result<Publisher> open_publisher(const Runtime& runtime, std::uint64_t payload_bytes = 4096) {
    return Publisher::open(runtime, kName, Format::bytes(payload_bytes).value());
  }
  Result<Subscriber> open_subscriber(const Runtime& runtime) {
    return Subscriber::open(runtime, kName, Deadline::after(seconds(50)));
  }
  [[nodiscard]] std::size_t file_count() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(directory_.path()), {}));
  }
  Result<void> publish(Publisher& publisher, std::uint64_t sequence) {
    auto frame = publisher.try_claim(StreamView::already_complete());
    if (!frame) return frame.error();
    const auto receipt = publish_pattern(publisher, *std::move(frame), {0, sequence});
    if (!receipt) return receipt.error();
    return {};
  }

  /// It names `path`, and says what to do.
  static void expect_remedy(const Error& error, const std::string& path) {
    const std::string text = to_string(error);
    EXPECT_NE(text.find("'" + path), std::string::npos) << text;
    EXPECT_NE(text.find(". Try: "), std::string::npos) << text;
  }

  TemporaryDirectory directory_;
};

void lower_descriptor_limit(rlim_t limit) {
  const rlimit lowered{limit, limit};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
}

/// CPU time that the reactor of this process has used, in clock ticks.
std::uint64_t reactor_ticks() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    if (name != "vl-reactor") continue;
    std::ifstream stat(task.path() / "stat");
    std::string word;
    std::uint64_t user = 0;
    std::uint64_t system = 0;
    for (int field = 1; field < 14; ++field) stat >> word;
    stat >> user >> system;
    return user + system;
  }
  ADD_FAILURE() << "there is no reactor";
  return 0;
}

TEST_F(Exhaustion, APublisherWithoutDescriptorsRefusesClearlyAndServesTheOthers) {
  ChildProcess child([&](const ChildLink& link) {
    const auto runtime = Runtime::open({directory_.path()}).value();
    auto publisher = open_publisher(runtime).value();
    lower_descriptor_limit(64);
    link.ready();
    static_cast<void>(link.wait_go());  // the subscribers are there, and some were refused
    std::uint64_t sequence = 0;
    EXPECT_TRUE(publish(publisher, ++sequence));
    const std::uint64_t before = reactor_ticks();
    // CPU time has to be measured over some time. One that spins uses nearly all of it, one that
    // does not a few ticks, however busy the machine is; a fifth is far from both.
    constexpr milliseconds kInterval(400);
    os::nap_until(Deadline::after(kInterval));
    const auto used_ms =
        (reactor_ticks() - before) * 1000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    EXPECT_LT(used_ms, static_cast<std::uint64_t>(kInterval.count()) / 5) << "the reactor spins";
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  ASSERT_EQ(child.wait_ready(), 1);
  const auto runtime = Runtime::open({directory_.path()}).value();
  std::vector<Subscriber> attached;
  int refused = 0;
  while (refused < 5 && attached.size() < 64) {
    auto subscriber = open_subscriber(runtime);
    if (subscriber) {
      attached.push_back(*std::move(subscriber));
    } else {
      EXPECT_EQ(subscriber.error().code(), Code::resource_exhausted)
          << to_string(subscriber.error());
      ++refused;
    }
  }
  EXPECT_EQ(refused, 5);
  EXPECT_GT(attached.size(), 8u);
  child.go();
  for (Subscriber& subscriber : attached) {
    const auto frame = subscriber.receive(Deadline::after(seconds(50)));
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_TRUE(is_whole(*frame));
  }
  ASSERT_EQ(child.wait_ready(), 1);
  attached.pop_back();
  // One that leaves makes room for another; its descriptors are closed soon after.
  const Deadline watchdog = Deadline::after(seconds(50));
  Result<Subscriber> late = open_subscriber(runtime);
  while (late.failed_with(Code::resource_exhausted) && !watchdog.has_passed()) {
    late = open_subscriber(runtime);
  }
  EXPECT_TRUE(late);
  child.go();
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Exhaustion, ASubscriberWithoutDescriptorsSaysSo) {
  ChildProcess child([&](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    const auto runtime = Runtime::open({directory_.path()}).value();
    lower_descriptor_limit(64);
    std::vector<Subscriber> attached;
    Code code = Code::empty;
    while (attached.size() < 64) {
      auto subscriber = open_subscriber(runtime);
      if (!subscriber) {
        code = subscriber.error().code();
        break;
      }
      attached.push_back(*std::move(subscriber));
    }
    EXPECT_EQ(code, Code::resource_exhausted);
    EXPECT_GT(attached.size(), 4u);
    link.ready();
    for (Subscriber& subscriber : attached) {
      const auto frame = subscriber.receive(Deadline::after(seconds(50)));
      EXPECT_TRUE(frame && is_whole(*frame));
    }
    return 0;
  });
  const auto runtime = Runtime::open({directory_.path()}).value();
  auto publisher = open_publisher(runtime).value();
  child.go();
  ASSERT_EQ(child.wait_ready(), 1);
  EXPECT_TRUE(publish(publisher, 1));
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Exhaustion, APayloadLargerThanTheHostIsRefusedBeforeAnybodySeesIt) {
  const auto runtime = Runtime::open({directory_.path()}).value();
  for (const std::uint64_t bytes : {std::uint64_t{1} << 43, std::uint64_t{1} << 61}) {
    const auto publisher = open_publisher(runtime, bytes);
    ASSERT_FALSE(publisher);
    const Error& error = publisher.error();
    EXPECT_TRUE(error.code() == Code::out_of_memory || error.code() == Code::invalid_argument)
        << to_string(error);
    ASSERT_NE(error.facts(), nullptr);
    EXPECT_GT(error.facts()->numbers[0], 0u) << to_string(error);
    EXPECT_TRUE(error.code() != Code::out_of_memory || !error.facts()->remedy.empty())
        << to_string(error);
    EXPECT_EQ(file_count(), 0u);
  }
}

TEST_F(Exhaustion, ADirectoryOfAnotherUserIsNotTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  ASSERT_EQ(::chown(directory_.path().c_str(), 65534, 65534), 0);
  const auto runtime = Runtime::open({directory_.path()});
  ASSERT_TRUE(runtime.failed_with(Code::permission_denied));
  expect_remedy(runtime.error(), directory_.path());
}

TEST_F(Exhaustion, ADirectoryWithoutWritePermissionIsNamed) {
  ChildProcess child([&](const ChildLink&) {
    EXPECT_EQ(::chmod(directory_.path().c_str(), 0500), 0);
    if (::geteuid() == 0) {
      EXPECT_EQ(::chown(directory_.path().c_str(), 65534, 65534), 0);
      EXPECT_EQ(::seteuid(65534), 0);  // root may write everywhere
    }
    const auto runtime = Runtime::open({directory_.path()});
    EXPECT_TRUE(runtime);
    if (!runtime) return 1;
    const auto publisher = open_publisher(*runtime);
    EXPECT_TRUE(publisher.failed_with(Code::permission_denied));
    if (!publisher) expect_remedy(publisher.error(), directory_.path() + "/" + kName + ".lock");
    const auto subscriber = Subscriber::open(*runtime, kName, Deadline::after(milliseconds(1)));
    EXPECT_TRUE(subscriber.failed_with(Code::not_found));
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_EQ(::chmod(directory_.path().c_str(), 0700), 0);
}

/// In a child: mounts an empty file system of `size` at `path`, for this process alone.
bool mount_small(const std::string& path, const char* size) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("small", path.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, size) == 0;
}

TEST_F(Exhaustion, ASmallDevShmDoesNotMatter) {
  ChildProcess child([&](const ChildLink&) {
    if (!mount_small("/dev/shm", "size=1m")) return kSkipped;
    const auto runtime = Runtime::open({directory_.path()}).value();
    auto publisher = open_publisher(runtime, 4 << 20);  // four slots of it
    EXPECT_TRUE(publisher) << to_string(publisher.error());
    if (!publisher) return 1;
    auto subscriber = open_subscriber(runtime);
    EXPECT_TRUE(subscriber);
    EXPECT_TRUE(publish(*publisher, 1));
    const auto frame = subscriber->receive(Deadline::after(seconds(50)));
    EXPECT_TRUE(frame && is_whole(*frame));
    return 0;
  });
  const int code = child.wait();
  if (code == kSkipped) GTEST_SKIP() << "needs root, to mount a small /dev/shm";
  EXPECT_EQ(code, 0);
}

TEST_F(Exhaustion, AFullRuntimeDirectoryIsNamedAndLeftAsItWas) {
  ChildProcess child([&](const ChildLink&) {
    if (!mount_small(directory_.path(), "size=64k,mode=0700")) return kSkipped;
    const auto runtime = Runtime::open({directory_.path()}).value();
    const std::string filler = directory_ / "filler";
    {
      std::ofstream file(filler);
      file << std::string(1 << 20, 'x') << std::flush;
      EXPECT_FALSE(file);
    }
    const auto refused = open_publisher(runtime);
    EXPECT_TRUE(refused.failed_with(Code::resource_exhausted))
        << (refused ? "it opened" : to_string(refused.error()));
    if (!refused) expect_remedy(refused.error(), directory_.path() + "/" + kName + ".lock");
    EXPECT_EQ(file_count(), 1u) << "something was left beside the filler";
    std::filesystem::remove(filler);
    EXPECT_TRUE(open_publisher(runtime));
    EXPECT_EQ(file_count(), 0u);
    return 0;
  });
  const int code = child.wait();
  if (code == kSkipped) GTEST_SKIP() << "needs root, to mount a small file system";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace vramlink::test
