// The host back end keeps the promises of every back end.
#include <cstring>
#include <string>

#include "backend/host/factory.hpp"
#include "conformance/memfd_backend_suite.hpp"

namespace vramlink::test {
namespace {

struct HostUnderTest {
  static constexpr std::uint64_t kUnitBytes = 1;
  static void prepare() {}
  static void require() { FAIL() << "every machine is a host"; }
  static std::unique_ptr<backend::Backend> create() { return host::create(); }
  static StreamView stream() { return StreamView::already_complete(); }
  static void finish(StreamView) {}
  static std::optional<StreamView> foreign_stream() {
    static int nothing = 0;
    return StreamView::cuda(&nothing);
  }
  static void fill(std::byte* target, std::span<const std::byte> bytes) {
    std::memcpy(target, bytes.data(), bytes.size());
  }
  static std::vector<std::byte> read(const std::byte* source, std::size_t size) {
    return {source, source + size};
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(Host, BackendSuite, HostUnderTest);
INSTANTIATE_TYPED_TEST_SUITE_P(Host, ForkingBackendSuite, HostUnderTest);
INSTANTIATE_TYPED_TEST_SUITE_P(Host, MemfdBackendSuite, HostUnderTest);

}  // namespace
}  // namespace vramlink::test
