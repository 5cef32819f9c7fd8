#include "runtime/import_registry.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>
#include <memory>
#include <new>

#include "support/leak_check.hpp"

namespace vramlink {
namespace {

using runtime::ImportRegistry;
using runtime::SharedView;

class ImportRegistryTest : public test::LeakCheck {
 protected:
  static constexpr os::SegmentKey kKey{1, 2};

  ImportRegistry::Map mapper() {
    return [this](os::Access) -> Result<SharedView> {
      ++mapped_;
      auto bytes = std::make_shared<std::array<std::byte, 64>>();
      return SharedView{bytes, bytes->data(), bytes->size()};
    };
  }
  Result<SharedView> find(const os::SegmentKey& key, std::uint64_t size_bytes = 64,
                          os::Access access = os::Access::read_only) {
    return registry_.find_or_map(key, size_bytes, access, mapper());
  }

  ImportRegistry registry_;
  int mapped_ = 0;
};

TEST_F(ImportRegistryTest, MapsOnceWhileSomebodyUsesIt) {
  SharedView first = find(kKey).value();
  const SharedView second = find(kKey).value();
  EXPECT_EQ(first.data, second.data);
  EXPECT_EQ(mapped_, 1);
  EXPECT_EQ(registry_.size(), 1U);
  first = {};
  EXPECT_EQ(find(kKey).value().data, second.data);
  EXPECT_EQ(mapped_, 1);
}

TEST_F(ImportRegistryTest, MapsAgainWhenNobodyUsesItAnyMore) {
  static_cast<void>(find(kKey).value());
  EXPECT_EQ(registry_.size(), 0U);
  static_cast<void>(find(kKey).value());
  EXPECT_EQ(mapped_, 2);
}

TEST_F(ImportRegistryTest, KeysAreBothNumbers) {
  const SharedView one = find({1, 2}).value();
  const SharedView other_inode = find({1, 3}).value();
  const SharedView other_device = find({2, 2}).value();
  EXPECT_EQ(mapped_, 3);
  EXPECT_EQ(registry_.size(), 3U);
  EXPECT_NE(one.data, other_inode.data);
  EXPECT_NE(one.data, other_device.data);
}

TEST_F(ImportRegistryTest, AnotherSizeIsCorrupt) {
  const SharedView view = find(kKey).value();
  EXPECT_TRUE(find(kKey, 65).failed_with(Code::corrupt));
  EXPECT_EQ(view.size_bytes, 64U);
}

TEST_F(ImportRegistryTest, WhatWasMappedForReadingIsNotHandedOutForWriting) {
  const SharedView view = find(kKey).value();
  EXPECT_TRUE(find(kKey, 64, os::Access::read_write).failed_with(Code::corrupt));
  const SharedView writable = find({5, 5}, 64, os::Access::read_write).value();
  EXPECT_EQ(find({5, 5}).value().data, writable.data);
}

TEST_F(ImportRegistryTest, AFailureIsNotRemembered) {
  const auto fail = [](os::Access) -> Result<SharedView> { return Error(Code::os, "map"); };
  EXPECT_TRUE(registry_.find_or_map(kKey, 64, os::Access::read_only, fail).failed_with(Code::os));
  EXPECT_TRUE(find(kKey));
}

TEST_F(ImportRegistryTest, FindsWhatIsOurOwn) {
  auto bytes = std::make_shared<std::array<std::byte, 64>>();
  registry_.remember(kKey, {bytes, bytes->data(), bytes->size()});
  EXPECT_EQ(find(kKey).value().data, bytes->data());
  EXPECT_EQ(mapped_, 0);
  const SharedView own = find(kKey, 64, os::Access::read_write).value();
  EXPECT_EQ(own.data, bytes->data());
}

/// A mapping on a thread of its own, which stands still until go_on().
class SlowMapping {
 public:
  SlowMapping(ImportRegistry& registry, const os::SegmentKey& key, bool fails = false)
      : mapping_(std::async(std::launch::async, [this, &registry, key, fails] {
          return registry.find_or_map(key, 64, os::Access::read_only,
                                      [&](os::Access) -> Result<SharedView> {
                                        started_.set_value();
                                        may_go_on_.get_future().wait();
                                        if (fails) return Error(Code::os, "map");
                                        auto bytes = std::make_shared<std::array<std::byte, 64>>();
                                        return SharedView{bytes, bytes->data(), bytes->size()};
                                      });
        })) {
    started_.get_future().wait();
  }
  void go_on() { may_go_on_.set_value(); }
  Result<SharedView> view() { return mapping_.get(); }

 private:
  std::promise<void> started_;
  std::promise<void> may_go_on_;
  std::future<Result<SharedView>> mapping_;  // last: its destructor waits
};

TEST_F(ImportRegistryTest, NobodyElseWaitsForAMapping) {
  SlowMapping slow(registry_, kKey);
  // Each of these would wait for ever.
  const SharedView other = find({5, 6}).value();
  auto bytes = std::make_shared<std::array<std::byte, 64>>();
  registry_.remember({7, 8}, {bytes, bytes->data(), bytes->size()});
  EXPECT_EQ(registry_.size(), 2U);
  slow.go_on();
  const SharedView view = slow.view().value();
  EXPECT_EQ(registry_.size(), 3U);
}

TEST_F(ImportRegistryTest, TheSecondImporterOfAKeyWaitsForTheFirst) {
  SlowMapping slow(registry_, kKey);
  auto second = std::async(std::launch::async, [&] { return find(kKey); });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  slow.go_on();
  const SharedView first = slow.view().value();
  EXPECT_EQ(second.get().value().data, first.data);
  EXPECT_EQ(mapped_, 0);
}

TEST_F(ImportRegistryTest, TheSecondImporterMapsIfTheFirstFails) {
  SlowMapping slow(registry_, kKey, true);
  auto second = std::async(std::launch::async, [&] { return find(kKey); });
  slow.go_on();
  EXPECT_TRUE(slow.view().failed_with(Code::os));
  EXPECT_TRUE(second.get());
  EXPECT_EQ(mapped_, 1);
}

TEST_F(ImportRegistryTest, WhatIsRememberedDuringAMappingIsUsed) {
  SlowMapping slow(registry_, kKey);
  auto bytes = std::make_shared<std::array<std::byte, 64>>();
  registry_.remember(kKey, {bytes, bytes->data(), bytes->size()});
  slow.go_on();
  EXPECT_EQ(slow.view().value().data, bytes->data());
}

TEST_F(ImportRegistryTest, AMappingThatThrowsKeepsNobodyWaiting) {
  const auto throws = [](os::Access) -> Result<SharedView> { throw std::bad_alloc(); };
  EXPECT_THROW(static_cast<void>(registry_.find_or_map(kKey, 64, os::Access::read_only, throws)),
               std::bad_alloc);
  EXPECT_TRUE(find(kKey));
}

TEST_F(ImportRegistryTest, AKeyThatIsUsedAgainIsAnotherMapping) {
  {
    const auto bytes = std::make_shared<std::array<std::byte, 64>>();
    registry_.remember(kKey, {bytes, bytes->data(), bytes->size()});
  }
  EXPECT_TRUE(find(kKey, 32)) << "the old one, and its size, are gone";
  EXPECT_EQ(mapped_, 1);
}

}  // namespace
}  // namespace vramlink
