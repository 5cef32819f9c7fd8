#include "os/shared_segment.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "support/child_process.hpp"
#include "support/leak_check.hpp"
#include "support/scoped_settings.hpp"

namespace vramlink {
namespace {

using os::Access;
using os::Inherit;
using os::Mapping;
using os::SharedSegment;
using os::UniqueFd;

constexpr std::uint64_t kSizeBytes = 12288;
constexpr std::uint64_t kLimitBytes = 1U << 20U;

class Segment : public test::LeakCheck {
 protected:
  /// What a peer receives.
  static UniqueFd sent(const SharedSegment& segment) { return *os::duplicate(segment.fd()); }
  static SharedSegment make() { return SharedSegment::create("vramlink-test", kSizeBytes).value(); }
  static SharedSegment make_sealed() {
    SharedSegment segment = make();
    segment.add_seals(os::kFullSeals).value();
    return segment;
  }
};

std::string reason_of(const Error& error) {
  return error.facts() == nullptr ? "" : error.facts()->reason;
}

TEST_F(Segment, IsZeroAndSharedAmongMappings) {
  const SharedSegment segment = make();
  EXPECT_EQ(segment.size_bytes(), kSizeBytes);
  EXPECT_EQ(::fcntl(segment.fd(), F_GETFD), FD_CLOEXEC);
  const Mapping writer = segment.map(Access::read_write).value();
  const Mapping reader = segment.map(Access::read_only).value();
  ASSERT_EQ(writer.size_bytes(), kSizeBytes);
  for (std::size_t i = 0; i < kSizeBytes; ++i) ASSERT_EQ(reader.data()[i], std::byte{0});
  writer.data()[kSizeBytes - 1] = std::byte{7};
  EXPECT_EQ(reader.data()[kSizeBytes - 1], std::byte{7});
}

TEST_F(Segment, MappingOutlivesItsSegment) {
  Mapping mapping;
  EXPECT_FALSE(mapping);
  mapping = make().map(Access::read_write).value();
  EXPECT_TRUE(mapping);
  mapping.data()[0] = std::byte{1};
  const Mapping moved = std::move(mapping);
  EXPECT_EQ(moved.data()[0], std::byte{1});
}

TEST_F(Segment, SizesThatNoFileHasAreRefused) {
  EXPECT_TRUE(SharedSegment::create("x", 0).failed_with(Code::invalid_argument));
  EXPECT_TRUE(SharedSegment::create("x", std::numeric_limits<std::uint64_t>::max())
                  .failed_with(Code::invalid_argument));
}

TEST_F(Segment, MoreThanTheHostHasIsRefusedWithNumbers) {
  constexpr std::uint64_t kWantedBytes = std::uint64_t{1} << 60U;
  const auto segment = SharedSegment::create("x", kWantedBytes);
  ASSERT_TRUE(segment.failed_with(Code::out_of_memory));
  EXPECT_EQ(segment.error().facts()->numbers[0], kWantedBytes);
  EXPECT_GT(segment.error().facts()->numbers[1], 0U);
}

TEST_F(Segment, FailedAllocationSaysHowMuchWasWanted) {
  test::ChildProcess child([](const test::ChildLink&) {
    test::limit_file_size(4096);
    const auto segment = SharedSegment::create("x", kSizeBytes);
    EXPECT_TRUE(segment.failed_with(Code::resource_exhausted));
    EXPECT_EQ(segment.error().facts()->numbers[0], kSizeBytes);
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Segment, LongNamesAreCut) {
  EXPECT_TRUE(SharedSegment::create(std::string(1000, 'n').c_str(), 4096));
}

TEST_F(Segment, LimitOfDescriptorsIsAnError) {
  const test::FileLimit limit;
  EXPECT_TRUE(SharedSegment::create("x", 4096).failed_with(Code::resource_exhausted));
}

TEST_F(Segment, AdoptTakesASealedSegment) {
  const SharedSegment segment = make_sealed();
  const auto adopted = SharedSegment::adopt(sent(segment), kSizeBytes, kLimitBytes, os::kFullSeals);
  ASSERT_TRUE(adopted) << to_string(adopted.error());
  EXPECT_EQ(adopted->size_bytes(), kSizeBytes);
  EXPECT_EQ(adopted->key().value(), segment.key().value());
  EXPECT_TRUE(adopted->map(Access::read_only));
}

TEST_F(Segment, AdoptNamesEachMissingSeal) {
  constexpr std::pair<unsigned, const char*> kSeals[] = {{os::kSealSeal, "SEAL"},
                                                         {os::kSealShrink, "SHRINK"},
                                                         {os::kSealGrow, "GROW"},
                                                         {os::kSealFutureWrite, "FUTURE_WRITE"}};
  for (const auto& [missing, name] : kSeals) {
    const SharedSegment segment = make();
    segment.add_seals(os::kFullSeals & ~missing).value();
    const auto adopted =
        SharedSegment::adopt(sent(segment), kSizeBytes, kLimitBytes, os::kFullSeals);
    ASSERT_TRUE(adopted.failed_with(Code::corrupt)) << name;
    EXPECT_EQ(reason_of(adopted.error()), std::string("seals are missing: ") + name);
  }
}

TEST_F(Segment, AdoptChecksTheSizeAgainstBothNumbers) {
  const SharedSegment segment = make_sealed();
  const auto adopt = [&](std::uint64_t expected, std::uint64_t limit) {
    return SharedSegment::adopt(sent(segment), expected, limit, os::kFullSeals);
  };
  EXPECT_TRUE(adopt(kSizeBytes, kSizeBytes));
  EXPECT_TRUE(adopt(kSizeBytes + 1, kLimitBytes).failed_with(Code::corrupt));
  EXPECT_TRUE(adopt(kSizeBytes - 1, kLimitBytes).failed_with(Code::corrupt));
  EXPECT_TRUE(adopt(kSizeBytes, kSizeBytes - 1).failed_with(Code::corrupt));
  EXPECT_TRUE(adopt(0, kLimitBytes).failed_with(Code::corrupt));
}

TEST_F(Segment, AdoptRefusesWhatIsNoMemfd) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd others[] = {UniqueFd(ends[0]), UniqueFd(ends[1]),
                       UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC)),
                       UniqueFd(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)),
                       UniqueFd(::open("/", O_PATH | O_CLOEXEC))};
  for (UniqueFd& other : others) {
    const auto adopted = SharedSegment::adopt(std::move(other), kSizeBytes, kLimitBytes, 0);
    ASSERT_TRUE(adopted.failed_with(Code::corrupt));
    EXPECT_EQ(reason_of(adopted.error()), "the descriptor is not a memfd");
  }
  EXPECT_TRUE(SharedSegment::adopt(UniqueFd(), kSizeBytes, kLimitBytes, 0)
                  .failed_with(Code::invalid_argument));
}

TEST_F(Segment, AdoptRefusesMissingPages) {
  UniqueFd sparse(::memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(sparse.get(), kSizeBytes), 0);
  ASSERT_EQ(::fcntl(sparse.get(), F_ADD_SEALS, os::kFullSeals), 0);
  const auto adopted =
      SharedSegment::adopt(std::move(sparse), kSizeBytes, kLimitBytes, os::kFullSeals);
  ASSERT_TRUE(adopted.failed_with(Code::corrupt));
  EXPECT_EQ(reason_of(adopted.error()), "pages are missing");
}

TEST_F(Segment, SealedAfterMappingIsGoodOnceVerified) {
  const SharedSegment owner = make();
  const auto subscriber = SharedSegment::adopt(sent(owner), kSizeBytes, kLimitBytes, 0);
  ASSERT_TRUE(subscriber);
  const auto mapping = subscriber->map(Access::read_write);
  ASSERT_TRUE(mapping);
  EXPECT_TRUE(subscriber->verify_seals(os::kFullSeals).failed_with(Code::corrupt));
  ASSERT_TRUE(owner.add_seals(os::kFullSeals));
  EXPECT_TRUE(subscriber->verify_seals(os::kFullSeals));
  mapping->data()[0] = std::byte{1};
}

TEST_F(Segment, ShrunkBeforeTheSealsIsNotTouched) {
  const SharedSegment owner = make();
  const auto subscriber = SharedSegment::adopt(sent(owner), kSizeBytes, kLimitBytes, 0);
  ASSERT_TRUE(subscriber);
  ASSERT_EQ(::ftruncate(owner.fd(), 4096), 0);
  ASSERT_TRUE(owner.add_seals(os::kFullSeals));
  const auto verified = subscriber->verify_seals(os::kFullSeals);
  ASSERT_TRUE(verified.failed_with(Code::corrupt));
  EXPECT_EQ(verified.error().facts()->numbers[0], kSizeBytes);
  EXPECT_EQ(verified.error().facts()->numbers[1], 4096U);
}

TEST_F(Segment, AHolePunchedBeforeTheSealsIsFound) {
  const SharedSegment owner = make();
  const auto subscriber = SharedSegment::adopt(sent(owner), kSizeBytes, kLimitBytes, 0);
  ASSERT_TRUE(subscriber);
  ASSERT_EQ(::fallocate(owner.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096), 0);
  ASSERT_TRUE(owner.add_seals(os::kFullSeals));
  const auto verified = subscriber->verify_seals(os::kFullSeals);
  ASSERT_TRUE(verified.failed_with(Code::corrupt));
  EXPECT_EQ(reason_of(verified.error()), "pages are missing");
}

TEST_F(Segment, SealsHold) {
  const SharedSegment segment = make();
  const Mapping before = segment.map(Access::read_write).value();
  ASSERT_TRUE(segment.add_seals(os::kFullSeals));
  EXPECT_EQ(segment.seals().value() & os::kFullSeals, os::kFullSeals);
  EXPECT_EQ(::ftruncate(segment.fd(), 4096), -1);
  EXPECT_EQ(::ftruncate(segment.fd(), 2 * kSizeBytes), -1);
  EXPECT_EQ(::madvise(before.data(), 4096, MADV_REMOVE), -1) << "a hole was punched";
  EXPECT_TRUE(segment.add_seals(os::kSealGrow).failed_with(Code::permission_denied));
  EXPECT_TRUE(segment.map(Access::read_write).failed_with(Code::permission_denied));
  EXPECT_TRUE(segment.map(Access::read_only));
  before.data()[0] = std::byte{1};  // a mapping that was writable stays so
}

TEST_F(Segment, ReadOnlyDescriptorMapsReadOnly) {
  const SharedSegment segment = make_sealed();
  const std::string path = "/proc/self/fd/" + std::to_string(segment.fd());
  UniqueFd read_only(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const auto adopted =
      SharedSegment::adopt(std::move(read_only), kSizeBytes, kLimitBytes, os::kFullSeals);
  ASSERT_TRUE(adopted);
  EXPECT_TRUE(adopted->map(Access::read_only));
  EXPECT_TRUE(adopted->map(Access::read_write).failed_with(Code::permission_denied));
}

TEST_F(Segment, KeysTellSegmentsApart) {
  const SharedSegment first = make();
  const SharedSegment second = make();
  EXPECT_NE(first.key().value(), second.key().value());
  EXPECT_EQ(first.key().value(), os::key_of(first.fd()).value());
  EXPECT_TRUE(os::key_of(-1).failed_with(Code::os));
}

TEST_F(Segment, EmptySegmentFailsEverything) {
  const SharedSegment segment;
  EXPECT_FALSE(segment);
  EXPECT_TRUE(segment.key().failed_with(Code::os));
  EXPECT_TRUE(segment.seals().failed_with(Code::os));
  EXPECT_TRUE(segment.add_seals(os::kSealGrow).failed_with(Code::os));
  EXPECT_TRUE(segment.map(Access::read_only).failed_with(Code::os));
}

bool is_mapped(const void* address) {
  unsigned char resident = 0;
  return ::mincore(const_cast<void*>(address), 4096, &resident) == 0;
}

TEST_F(Segment, ForkedChildInheritsOnlyWhatItMay) {
  const SharedSegment segment = make();
  const Mapping control = segment.map(Access::read_write).value();
  const Mapping payload = segment.map(Access::read_write, Inherit::yes).value();
  test::ChildProcess child(
      [&](const test::ChildLink&) {
        EXPECT_FALSE(is_mapped(control.data()));
        EXPECT_TRUE(is_mapped(payload.data()));
        EXPECT_TRUE(segment.map(Access::read_only).failed_with(Code::wrong_state));
        return 0;
      },
      test::ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Segment, ForkedChildDoesNotUnmapWhatLiesThereNow) {
  const SharedSegment segment = make();
  Mapping control = segment.map(Access::read_write).value();
  test::ChildProcess child(
      [&](const test::ChildLink&) {
        void* address = control.data();
        void* other =
            ::mmap(address, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        EXPECT_EQ(other, address);
        { const Mapping destroyed = std::move(control); }
        EXPECT_TRUE(is_mapped(address));
        return 0;
      },
      test::ChildKind::forked);
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace vramlink
