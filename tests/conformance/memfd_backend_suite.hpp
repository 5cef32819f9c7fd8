// What back ends promise whose memory is memfds, beside backend_suite.hpp.
#pragma once

#include "conformance/backend_suite.hpp"

namespace vramlink::test {

/// Where an export is a memfd that the CPU maps.
template <class UnderTest>
class MemfdBackendSuite : public BackendSuite<UnderTest> {};

TYPED_TEST_SUITE_P(MemfdBackendSuite);

TYPED_TEST_P(MemfdBackendSuite, AnImportForReadingFaultsOnWrite) {
  const auto memory = this->backend_->allocate(this->kBytes).value();
  const auto imported = this->import(*memory).value();
  EXPECT_DEATH(*const_cast<volatile std::byte*>(imported->data()) = std::byte{1}, "");
  EXPECT_EQ(this->read(memory->data()), std::vector<std::byte>(this->kBytes));
}

TYPED_TEST_P(MemfdBackendSuite, NobodyCanMapAnExportForWriting) {
  const auto memory = this->backend_->allocate(this->kBytes).value();
  EXPECT_TRUE(this->import(*memory, this->kBytes, os::Access::read_write)
                  .failed_with(Code::permission_denied));
}

TYPED_TEST_P(MemfdBackendSuite, AnUnsealedExportIsCorrupt) {
  for (const unsigned missing : {os::kFullSeals, os::kSealShrink, os::kSealFutureWrite}) {
    const os::SharedSegment segment = os::SharedSegment::create("hostile", this->kBytes).value();
    ASSERT_TRUE(segment.add_seals(os::kFullSeals & ~missing));
    EXPECT_TRUE(this->backend_
                    ->import_memory(os::duplicate(segment.fd()).value(), this->kBytes,
                                    os::Access::read_only)
                    .failed_with(Code::corrupt))
        << missing;
  }
}

TYPED_TEST_P(MemfdBackendSuite, WhatIsNoMemfdIsCorrupt) {
  EXPECT_TRUE(
      this->backend_->import_memory(os::event_fd().value(), this->kBytes, os::Access::read_only)
          .failed_with(Code::corrupt));
}

REGISTER_TYPED_TEST_SUITE_P(MemfdBackendSuite, AnImportForReadingFaultsOnWrite,
                            NobodyCanMapAnExportForWriting, AnUnsealedExportIsCorrupt,
                            WhatIsNoMemfdIsCorrupt);

}  // namespace vramlink::test
