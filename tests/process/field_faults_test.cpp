// The kinds of trouble that people report of memory shared between processes, each in a short form
// from end to end, on the host and on devices. docs/testing.md has the list, and the suites that go
// deeper.
#include "field_faults.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/absent_device.hpp"

namespace vramlink::test {
namespace {

using std::chrono::milliseconds;

// Kind 1. "The consumer was killed, and the producer's memory stays allocated until it is started
// again"; "the producer has exited, and nvidia-smi still shows its gigabytes".
TEST_F(FieldFaults, MemoryStaysTakenAfterThePeerIsDead) {
  expect_leftovers();
  ChildProcess owner([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    LogLines log;
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime, {.slot_count = 3, .when_full = WhenFull::block});
    EXPECT_TRUE(publisher.wait_for_subscribers(2, soon()));
    for (std::uint64_t number = 1; number <= 3; ++number) {
      EXPECT_TRUE(publish_complete(publisher, number));
      if (number < 3) static_cast<void>(link.wait_go());  // it is held
    }
    EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
    const std::string pid = std::to_string(publisher.statistics().subscribers.at(0).pid);
    say_ready(link);
    // Nobody asks for anything to be collected: the death alone gives the slots back.
    EXPECT_TRUE(publish_complete(publisher, 4, kForever));
    EXPECT_EQ(publisher.statistics().subscribers_died, 1U);
    EXPECT_TRUE(log.say({kName, "subscriber pid " + pid + " died", "that it held, 2", "again"}));
    say_ready(link);
    link.wait_forever();
    return 0;
  });
  ChildProcess reader([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_runtime();
    Subscriber subscriber =
        open_subscriber(runtime, {.policy = ReceivePolicy::queue(2), .held_count_max = 2});
    say_ready(link);
    const Frame first = subscriber.receive(soon()).value();
    say_ready(link);
    const Frame second = subscriber.receive(soon()).value();
    say_ready(link);
    link.wait_forever();
    return 0;
  });
  const std::uint64_t before = frame_memory_before();
  const Runtime runtime = open_runtime();
  owner.go();
  reader.go();
  EXPECT_TRUE(is_ready(reader));
  Subscriber witness = open_subscriber(runtime);
  for (int held = 0; held < 2; ++held) {
    EXPECT_TRUE(is_ready(reader));
    owner.go();
  }
  EXPECT_TRUE(is_ready(owner));
  reader.kill();
  EXPECT_TRUE(is_ready(owner));
  std::optional<Frame> kept = witness.receive(soon()).value();
  EXPECT_TRUE(holds_frame(kept->bytes(), 4));
  owner.kill();
  EXPECT_TRUE(witness.receive(kForever).failed_with(Code::peer_gone));
  owner.wait();
  reader.wait();
  EXPECT_TRUE(holds_frame(kept->bytes(), 4)) << "what is held stays, and nothing else";
  EXPECT_TRUE(is_refused(
      inspect_owner(runtime, kName), Code::not_found,
      {kName, "process " + std::to_string(owner.pid()), "has ended", "start a publisher"}));
  kept.reset();
  // The Subscriber lives on and waits for the next owner; of this one it keeps no memory.
  EXPECT_TRUE(comes_true([&] { return frame_memory() <= before; })) << frame_memory();
}

// Kind 2. "Sometimes the consumer sees half of the next image"; "it gets the previous batch again".
TEST_F(FieldFaults, StaleOrTornFramesAreNeverRead) {
  constexpr std::uint64_t kFrames = 300;
  ChildProcess owner([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime, {.slot_count = 4});
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    link.ready();
    // As fast as it can: it laps the reader and would overwrite what is being read.
    for (std::uint64_t number = 1; number <= kFrames;) {
      const Result<Receipt> published = publish_number(publisher, number);
      EXPECT_TRUE(published || published.failed_with(Code::full));
      if (!published) continue;
      EXPECT_EQ(published->sequence(), number++);
    }
    EXPECT_TRUE(publisher.close(soon()));
    link.ready();
    static_cast<void>(link.wait_go());
    return 0;
  });
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime, {.held_count_max = 2});
  owner.wait_ready();
  std::optional<Frame> before;
  while (true) {
    Result<Frame> frame = subscriber.receive(soon());
    if (frame.failed_with(Code::closed)) break;
    ASSERT_TRUE(frame) << to_string(frame.error());
    EXPECT_TRUE(holds_frame(frame->bytes(), frame->sequence())) << "it is whole, and the one";
    EXPECT_EQ(frame->media_ns(), static_cast<std::int64_t>(frame->sequence()));
    if (before) {
      EXPECT_GT(frame->sequence(), before->sequence()) << "none comes again";
      EXPECT_TRUE(holds_frame(before->bytes(), before->sequence())) << "it was written to";
    }
    before = *std::move(frame);
  }
  ASSERT_TRUE(before);
  owner.wait_ready();
  // Without a new frame there is an error, and not the old data.
  EXPECT_TRUE(is_refused(subscriber.receive(milliseconds(1)), Code::timed_out,
                         {"receive frame", "timed out"}));
  owner.go();
  EXPECT_EQ(owner.wait(), 0);
}

// Kind 3. "cudaFree in the producer while the consumer's kernel runs"; "the producer must stay
// alive until every consumer is done, or they crash".
TEST_F(FieldFaults, TheOwnerFreesOrExitsWhileOthersRead) {
  ChildProcess owner([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime, {.slot_count = 3});
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_complete(publisher, 1));
    link.ready();
    static_cast<void>(link.wait_go());
    // Its first memory is not needed any more, by itself.
    EXPECT_TRUE(publisher.resize(Format::bytes(2 * kFrameBytes).value(), soon()));
    EXPECT_TRUE(publish_complete(publisher, 2));
    link.ready();
    static_cast<void>(link.wait_go());
    // Who still reads what was to be freed is known.
    const std::vector<SubscriberView> readers = publisher.statistics().subscribers;
    EXPECT_EQ(readers.size(), 1U);
    EXPECT_EQ(readers.at(0).pid, ::getppid());
    EXPECT_EQ(readers.at(0).held, 2U) << "one of each memory";
    EXPECT_TRUE(publisher.close(soon())) << "what is held is no reason to wait";
    return 0;
  });
  const std::uint64_t before = frame_memory_before();
  const Runtime runtime = open_runtime();
  owner.go();
  std::optional<Subscriber> subscriber =
      open_subscriber(runtime, {.policy = ReceivePolicy::queue(2)});
  std::optional<Frame> first = subscriber->receive(soon()).value();
  owner.wait_ready();
  owner.go();
  owner.wait_ready();
  EXPECT_TRUE(holds_frame(first->bytes(), 1)) << "freed by its owner";
  std::optional<Frame> second = subscriber->receive(soon()).value();
  EXPECT_TRUE(holds_frame(second->bytes(), 2));
  owner.go();
  EXPECT_EQ(owner.wait(), 0);
  EXPECT_TRUE(holds_frame(first->bytes(), 1)) << "its owner has exited";
  EXPECT_TRUE(holds_frame(second->bytes(), 2));
  EXPECT_TRUE(is_refused(subscriber->receive(soon()), Code::closed, {"receive frame", "closed"}));
  subscriber.reset();
  EXPECT_TRUE(holds_frame(first->bytes(), 1));
  EXPECT_TRUE(holds_frame(second->bytes(), 2));
  first.reset();
  second.reset();
  EXPECT_TRUE(comes_true([&] { return frame_memory() <= before; })) << "and now it is free";
}

// Kind 6. "It runs at 0.3 GB/s, and nothing says that the fast path was not taken".
TEST_F(FieldFaults, ASlowerPathIsNeverTakenInSilence) {
  ChildProcess owner([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    const std::string absent = to_string(kAbsentDevice);
    EXPECT_TRUE(is_refused(Publisher::open(runtime, kName, Format::bytes(kFrameBytes).value(),
                                           {.device = kAbsentDevice}),
                           absent_device_code(runtime), {absent, "Try: "}))
        << "host memory is no stand-in for a GPU";
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_complete(publisher, 1));
    static_cast<void>(link.wait_go());
    EXPECT_EQ(publisher.statistics().subscribers_ever, 1U);
    return 0;
  });
  const Runtime runtime = open_runtime();
  Subscriber subscriber = open_subscriber(runtime);
  {
    const Frame frame = subscriber.receive(soon()).value();
    EXPECT_TRUE(holds_frame(frame.bytes(), 1));
    EXPECT_EQ(frame.device(), TestDevice::id()) << "it is read where it is";
    EXPECT_FALSE(frame.is_copy());
  }
  EXPECT_EQ(subscriber.statistics().copied, 0U);
  // Who may copy is told all the same when there is no way at all.
  EXPECT_TRUE(
      is_refused(Subscriber::open(runtime, kName, soon(),
                                  {.device = kAbsentDevice, .copy_frames = CopyFrames::always}),
                 absent_device_code(runtime), {to_string(kAbsentDevice), "Try: "}));
  owner.go();
  EXPECT_EQ(owner.wait(), 0);
}

// Kind 7. "After the producer re-allocates, the consumer reads the old memory through its cached
// handle"; "closing one tensor unmaps the other"; "every message is mapped anew".
TEST_F(FieldFaults, NothingIsReadThroughAMappingThatWasReplaced) {
  constexpr std::uint64_t kLives = 3;
  constexpr std::uint64_t kGenerations = 3;
  constexpr std::uint32_t kReaders = 3;
  ChildProcess owner([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    for (std::uint64_t life = 1; life <= kLives; ++life) {
      Publisher publisher = open_publisher(runtime, {.slot_count = 3});
      for (std::uint64_t generation = 1; generation <= kGenerations; ++generation) {
        EXPECT_TRUE(publisher.wait_for_subscribers(kReaders, soon()));
        EXPECT_TRUE(publish_complete(publisher, 10 * life + generation));
        static_cast<void>(link.wait_go());
        if (generation == kGenerations) break;
        WritableFrame older = publisher.try_claim(kNow).value();
        // Of the same size: addresses, descriptors and numbers of the old memory come again.
        EXPECT_TRUE(publisher.resize(Format::bytes(kFrameBytes).value(), soon()));
        EXPECT_TRUE(is_refused(publisher.publish(std::move(older), kNow), Code::stale,
                               {"publish frame", "stale"}));
      }
      EXPECT_TRUE(publisher.close(soon()));
    }
    return 0;
  });
  const Runtime runtime = open_runtime();
  std::vector<Subscriber> readers;
  for (std::uint32_t i = 0; i < kReaders; ++i) readers.push_back(open_subscriber(runtime));
  std::uint64_t epoch = 0;
  for (std::uint64_t life = 1; life <= kLives; ++life) {
    for (std::uint64_t generation = 1; generation <= kGenerations; ++generation) {
      std::vector<Frame> frames;
      for (Subscriber& reader : readers) {
        Result<Frame> frame = reader.receive(soon());
        if (frame.failed_with(Code::closed)) frame = reader.receive(soon());
        ASSERT_TRUE(frame) << to_string(frame.error());
        EXPECT_TRUE(holds_frame(frame->bytes(), 10 * life + generation));
        EXPECT_EQ(frame->generation(), generation);
        frames.push_back(*std::move(frame));
      }
      if (generation == 1) {
        EXPECT_NE(frames[0].epoch(), epoch) << "another life of the owner";
        epoch = frames[0].epoch();
      }
      EXPECT_EQ(frames[1].epoch(), epoch);
      // One of three users of the memory closes it, and another opens it again.
      frames.erase(frames.begin());
      readers.erase(readers.begin());
      readers.push_back(open_subscriber(runtime));
      for (const Frame& frame : frames) {
        EXPECT_TRUE(holds_frame(frame.bytes(), 10 * life + generation)) << "a close too many";
      }
      EXPECT_TRUE(receives_frame(readers.back(), 10 * life + generation, soon()));
      frames.clear();
      if (TestDevice::is_host()) {
        EXPECT_TRUE(comes_true([&] { return frame_memory() == 1; }))
            << frame_memory() << " mappings instead of one for all of them";
      }
      owner.go();
    }
  }
  EXPECT_EQ(owner.wait(), 0);
}

/// What a process in a container has of its own.
enum class Container : std::uint8_t { with_proc, without_proc };
constexpr int kNoContainers = 77;

/// Runs `body` as the first process of namespaces of its own: users, pids, mounts, IPC, network.
/// Returns its code, or kNoContainers where the system does not permit them. For a child that has
/// one thread.
int run_in_container(Container kind, const std::function<int()>& body) {
  const auto user = static_cast<unsigned>(::geteuid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET) != 0) {
    return kNoContainers;
  }
  std::array<char, 64> map{};
  const int length = std::snprintf(map.data(), map.size(), "%u %u 1\n", user, user);
  const int fd = ::open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
  const bool is_mapped =
      ::write(fd, map.data(), static_cast<std::size_t>(length)) == static_cast<ssize_t>(length);
  ::close(fd);
  if (!is_mapped) return kNoContainers;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        (kind == Container::with_proc && ::mount("proc", "/proc", "proc", 0, nullptr) != 0)) {
      end_child(kNoContainers);
    }
    const int code = body();
    end_child(code == 0 && ::testing::Test::HasFailure() ? ChildProcess::kFailedExpectation : code);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Whether containers can be made here; looked at in a child.
bool has_containers() {
  ChildProcess child(
      [](const ChildLink&) { return run_in_container(Container::with_proc, [] { return 0; }); });
  return child.wait() == 0;
}

// Kind 9. "It works only with --pid=host and --ipc=host"; "pidfd_getfd: Operation not permitted".
TEST_F(FieldFaults, PeersInContainersNeedNoRightsOfTheHost) {
  if (!has_containers()) GTEST_SKIP() << "no namespaces can be made here";
  expect_leftovers();
  ChildProcess reader([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    return run_in_container(Container::with_proc, [&] {
      const Runtime runtime = open_runtime();
      Subscriber subscriber =
          open_subscriber(runtime, {.policy = ReceivePolicy::queue(1), .held_count_max = 1});
      const Frame frame = subscriber.receive(soon()).value();
      EXPECT_TRUE(holds_frame(frame.bytes(), 1));
      say_ready(link);
      link.wait_forever();
      return 0;
    });
  });
  ChildProcess owner([this](const ChildLink& link) {
    static_cast<void>(link.wait_go());
    return run_in_container(Container::with_proc, [&] {
      const Runtime runtime = open_runtime();
      Publisher publisher = open_publisher(runtime);
      EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
      EXPECT_TRUE(publish_complete(publisher, 5));
      say_ready(link);
      link.wait_forever();
      return 0;
    });
  });
  const Runtime runtime = open_runtime();
  {
    Publisher publisher = open_publisher(runtime, {.slot_count = 2, .when_full = WhenFull::block});
    ASSERT_TRUE(publish_complete(publisher, 1));
    reader.go();
    EXPECT_TRUE(is_ready(reader));
    ASSERT_TRUE(publish_complete(publisher, 2));
    EXPECT_TRUE(publisher.try_claim(kNow).failed_with(Code::full));
    EXPECT_GT(publisher.statistics().subscribers.at(0).pid, 1) << "by the number that it has here";
    reader.kill();
    EXPECT_TRUE(publish_complete(publisher, 3, kForever)) << "its death is seen from outside";
    EXPECT_EQ(publisher.statistics().subscribers_died, 1U);
  }
  reader.wait();
  // The other way round: a publisher whose number inside is 1.
  owner.go();
  Subscriber subscriber = open_subscriber(runtime);
  EXPECT_TRUE(is_ready(owner));
  EXPECT_TRUE(receives_frame(subscriber, 5, soon()));
  EXPECT_TRUE(is_refused(Publisher::open(runtime, kName, Format::bytes(8).value(), {}),
                         Code::already_exists,
                         {kName, "process 1 of another pid namespace owns it", "another name"}));
  owner.kill();
  EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::peer_gone));
  owner.wait();
}

// Kind 9. "Invalid argument", where the truth is that a container lacks something.
TEST_F(FieldFaults, WhatAContainerLacksIsNamed) {
  if (!has_containers()) GTEST_SKIP() << "no namespaces can be made here";
  ChildProcess inside([this](const ChildLink&) {
    return run_in_container(Container::without_proc, [&] {
      const Runtime runtime = open_runtime();
      EXPECT_TRUE(is_refused(Publisher::open(runtime, "cam1", Format::bytes(8).value(), {}),
                             Code::unsupported, {"/proc", "another pid namespace", "mount proc"}));
      EXPECT_TRUE(is_refused(Subscriber::open(runtime, kName, soon()), Code::unsupported,
                             {"/proc", "another pid namespace", "mount proc"}));
      return 0;
    });
  });
  const Runtime runtime = open_runtime();
  const Publisher publisher = open_publisher(runtime);
  EXPECT_EQ(inside.wait(), 0);
}

// Kind 10. "One worker hangs in the debugger, and the whole pipeline stands"; "a slow consumer
// makes everybody drop frames".
TEST_F(FieldFaults, AStoppedReaderHoldsUpNobodyElse) {
  ChildProcess stopped([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime);
    const Frame held = subscriber.receive(soon()).value();
    link.ready();
    static_cast<void>(link.wait_go());
    // Stopped here, and on from here.
    EXPECT_TRUE(holds_frame(held.bytes(), 1)) << "what it holds nobody writes to";
    EXPECT_TRUE(is_refused(
        subscriber.receive(soon()), Code::revoked,
        {kName, "longer than the publisher's lease", "stays valid", "release frames sooner"}));
    EXPECT_TRUE(holds_frame(held.bytes(), 1));
    return 0;
  });
  ChildProcess other([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime);
    std::uint64_t last = 0;
    link.ready();
    while (true) {
      const Result<Frame> frame = subscriber.receive(soon());
      if (frame.failed_with(Code::closed)) break;
      EXPECT_TRUE(frame && frame->sequence() > last &&
                  holds_frame(frame->bytes(), frame->sequence()));
      if (!frame) return 1;
      last = frame->sequence();
    }
    EXPECT_GT(last, 20U);
    EXPECT_EQ(subscriber.statistics().revocations, 0U);
    return 0;
  });
  LogLines log;
  const Runtime runtime = open_runtime();
  // A lease that an honest reader keeps on a busy machine as well.
  Publisher publisher = open_publisher(
      runtime, {.slot_count = 5, .when_full = WhenFull::evict, .lease = milliseconds(500)});
  other.wait_ready();
  ASSERT_TRUE(publisher.wait_for_subscribers(2, soon()));
  ASSERT_TRUE(publish_complete(publisher, 1));
  stopped.wait_ready();
  stopped.stop();
  std::uint64_t number = 1;
  const auto go_on_until = [&](const auto& done) {
    while (!done()) {
      const Result<Receipt> published = publish_complete(publisher, number + 1, milliseconds(2));
      if (published) ++number;
      ASSERT_TRUE(published || published.failed_with(Code::full) ||
                  published.failed_with(Code::stale))
          << to_string(published.error());
    }
  };
  go_on_until([&] { return publisher.statistics().subscribers_evicted == 1; });
  const std::uint64_t evicted_at = number;
  go_on_until([&] { return number >= evicted_at + 20; });
  EXPECT_TRUE(log.say({kName, "subscriber pid " + std::to_string(stopped.pid()),
                       "longer than its lease", "disconnected"}));
  EXPECT_EQ(publisher.statistics().slots_lost, 1U) << "its slot is nobody else's";
  stopped.resume();
  stopped.go();
  EXPECT_EQ(stopped.wait(), 0);
  EXPECT_TRUE(publisher.close(soon()));
  EXPECT_EQ(other.wait(), 0);
}

// Kind 10. "recv() never returns"; "the process cannot even be ended: it hangs in a destructor".
TEST_F(FieldFaults, AStoppedOwnerHangsNobody) {
  ChildProcess owner([this](const ChildLink& link) {
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_complete(publisher, 1));
    link.ready();
    static_cast<void>(link.wait_go());
    EXPECT_TRUE(publish_complete(publisher, 2));
    static_cast<void>(link.wait_go());
    return 0;
  });
  const Runtime runtime = open_runtime();
  std::optional<Subscriber> subscriber = open_subscriber(runtime);
  owner.wait_ready();
  owner.stop();
  EXPECT_TRUE(receives_frame(*subscriber, 1, soon())) << "what is there is given";
  EXPECT_TRUE(is_refused(subscriber->receive(milliseconds(5)), Code::timed_out, {"timed out"}));
  EXPECT_TRUE(is_refused(Subscriber::open(runtime, kName, milliseconds(20)), Code::timed_out,
                         {kName, "is there and did not let us in", "stopped or overloaded"}));
  EXPECT_TRUE(inspect_owner(runtime, kName).value().stopped);
  std::atomic<bool> ended{false};
  std::thread interrupter([&] {
    while (!ended) subscriber->interrupt();  // it may not wait yet
  });
  EXPECT_TRUE(subscriber->receive(kForever).failed_with(Code::interrupted));
  ended = true;
  interrupter.join();
  subscriber.reset();  // waits for nobody
  owner.resume();
  subscriber = open_subscriber(runtime);
  owner.go();
  Result<Frame> next = subscriber->receive(soon());
  while (next && next->sequence() < 2) next = subscriber->receive(soon());
  EXPECT_TRUE(next && holds_frame(next->bytes(), 2)) << "nothing was lost by it";
  owner.go();
  EXPECT_EQ(owner.wait(), 0);
}

// Kind 13. "Too many open files, after an hour"; "/dev/shm is full, 64 MB in a container"; "what a
// crash has left must be deleted by hand".
TEST_F(FieldFaults, LowLimitsAreNamedAndACrashLeavesNothing) {
  const auto lower_limits = [] {
    if (!TestDevice::is_host()) static_cast<void>(TestDevice::stream());  // the driver's own
    rlimit locked{};
    EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &locked), 0);
    locked.rlim_cur = std::min<rlim_t>(locked.rlim_max, 64 * 1024);
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &locked), 0);
    return std::make_unique<FileLimit>(40);
  };
  ChildProcess owner([&](const ChildLink& link) {
    const auto limits = lower_limits();
    const Runtime runtime = open_runtime();
    Publisher publisher = open_publisher(runtime);
    EXPECT_TRUE(publisher.wait_for_subscribers(1, soon()));
    EXPECT_TRUE(publish_complete(publisher, 1));
    say_ready(link);
    link.wait_forever();
    return 0;
  });
  ChildProcess reader([&](const ChildLink& link) {
    const auto limits = lower_limits();
    const Runtime runtime = open_runtime();
    Subscriber subscriber = open_subscriber(runtime, {.policy = ReceivePolicy::queue(1)});
    EXPECT_TRUE(receives_frame(subscriber, 1, soon()));
    {
      const FileLimit none;
      EXPECT_TRUE(is_refused(Subscriber::open(runtime, kName, soon()), Code::resource_exhausted,
                             {kName, "Too many open files", "RLIMIT_NOFILE (ulimit -n)",
                              "may open " + std::to_string(FileLimit::current()) + " files"}));
    }
    EXPECT_TRUE(Subscriber::open(runtime, kName, soon())) << "nothing was half done";
    link.ready();
    EXPECT_TRUE(subscriber.receive(kForever).failed_with(Code::peer_gone));
    return 0;
  });
  EXPECT_TRUE(is_ready(owner));
  reader.wait_ready();
  std::error_code none_there;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none_there)) {
    EXPECT_EQ(entry.path().filename().string().find("vramlink"), std::string::npos)
        << entry.path() << ": memory is shared without a name";
  }
  owner.kill();
  owner.wait();
  EXPECT_EQ(reader.wait(), 0);
  EXPECT_NE(files(), std::vector<std::string>{}) << "what a killed process cannot delete";
  const Runtime runtime = open_runtime();
  EXPECT_EQ(list_channels(runtime).value(), std::vector<std::string>{}) << "it counts for nothing";
  Publisher next = open_publisher(runtime);
  Subscriber subscriber = open_subscriber(runtime);
  ASSERT_TRUE(publish_complete(next, 2));
  EXPECT_TRUE(receives_frame(subscriber, 2, soon()));
  // The fixture finds no file, descriptor or mapping after this.
}

}  // namespace
}  // namespace vramlink::test
