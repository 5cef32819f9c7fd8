// Words that streams wait for, and what can be changed in an executable graph: the headings "The
// comparison is cyclic", "A graph keeps to one kind of source" and "One graph launch is cheaper
// than four calls" of docs/cuda_notes.md.
#include <array>
#include <limits>
#include <span>

#include "conformance/driver_fixture.hpp"

namespace vramlink::test {
namespace {

using cuda_api::MemOp;
using cuda_api::MemOpType;
using cuda_api::Status;

class DriverWords : public DriverRules {
 protected:
  /// Has the stream wait in each of three ways, one after the other.
  template <class Check>
  void for_each_way(std::uint64_t value, const Check& check) {
    MemOp wait{MemOpType::wait_value_64, address(kGate), value, 0, 0, 0};
    const std::array<std::function<void()>, 3> ways{
        [&] { raw().expect(driver().stream_wait_value_64(stream(), address(kGate), value, 0)); },
        [&] { raw().expect(driver().stream_batch_mem_op(stream(), 1, &wait, 0)); },
        [&] {
          cuda_api::Graph graph = nullptr;
          cuda_api::GraphNode node = nullptr;
          cuda_api::GraphExec exec = nullptr;
          const cuda_api::BatchMemOpNodeParameters words{raw().context(), 1, &wait, 0};
          raw().expect(driver().graph_create(&graph, 0));
          raw().expect(driver().graph_add_batch_mem_op_node(&node, graph, nullptr, 0, &words));
          raw().expect(driver().graph_instantiate(&exec, graph, 0));
          raw().expect(driver().graph_launch(exec, stream()));
          // The launch goes on without them.
          raw().expect(driver().graph_exec_destroy(exec));
          raw().expect(driver().graph_destroy(graph));
        }};
    for (std::size_t way = 0; way < ways.size(); ++way) {
      SCOPED_TRACE(way);
      check(ways[way]);
      raw().finish(raw().stream());
    }
  }
  void expect_still_waiting() {
    let_time_pass(20);
    EXPECT_TRUE(raw().is_busy(raw().stream()));
  }
};

TEST_F(DriverWords, AWaitComparesTheSignedDifference) {
  constexpr std::uint64_t kLast = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;
  for (const std::uint64_t releasing : {std::uint64_t{5}, std::uint64_t{6}, kHalf - 1, kHalf + 4}) {
    SCOPED_TRACE(releasing);
    for_each_way(5, [&](const auto& wait) {
      open(0);
      wait();
      for (const std::uint64_t holding : {std::uint64_t{0}, std::uint64_t{4}, kLast, kHalf + 5}) {
        open(holding);
        expect_still_waiting();
      }
      open(releasing);
    });
  }
  // It goes on past the largest number.
  for_each_way(kLast, [&](const auto& wait) {
    open(kLast - 1);
    wait();
    expect_still_waiting();
    open(2);
  });
}

TEST_F(DriverWords, ABatchOfThemNeedsItsBarriers) {
  MemOp write{MemOpType::write_value_64, address(kDone), 1, 1, 0, 0};  // NO_MEMORY_BARRIER
  EXPECT_GIVES(invalid_value, driver().stream_batch_mem_op(stream(), 1, &write, 0));
  write.flags = 0;
  EXPECT_GIVES(success, driver().stream_batch_mem_op(stream(), 1, &write, 0));
  page_->see(kDone, 1);
}

/// A graph of a copy and words behind it, as the back end makes them.
class CopyGraph {
 public:
  CopyGraph(const cuda_api::Memcpy3d& copy, std::span<MemOp> words) {
    RawCuda& raw = *RawCuda::get();
    const cuda_api::BatchMemOpNodeParameters parameters = parameters_of(words);
    raw.expect(raw.driver().graph_create(&graph_, 0));
    raw.expect(
        raw.driver().graph_add_memcpy_node(&copy_, graph_, nullptr, 0, &copy, raw.context()));
    raw.expect(raw.driver().graph_add_batch_mem_op_node(&words_, graph_, &copy_, 1, &parameters));
    raw.expect(raw.driver().graph_instantiate(&exec_, graph_, 0));
  }
  CopyGraph(const CopyGraph&) = delete;
  CopyGraph& operator=(const CopyGraph&) = delete;
  ~CopyGraph() {
    const RawCuda& raw = *RawCuda::get();
    raw.expect(raw.driver().graph_exec_destroy(exec_));
    raw.expect(raw.driver().graph_destroy(graph_));
  }

  [[nodiscard]] Status set_words(std::span<MemOp> words) const {
    const cuda_api::BatchMemOpNodeParameters parameters = parameters_of(words);
    return RawCuda::get()->driver().graph_exec_batch_mem_op_set(exec_, words_, &parameters);
  }
  [[nodiscard]] Status set_copy(const cuda_api::Memcpy3d& copy) const {
    return RawCuda::get()->driver().graph_exec_memcpy_set(exec_, copy_, &copy,
                                                          RawCuda::get()->context());
  }
  [[nodiscard]] Status launch(cuda_api::Stream stream) const {
    return RawCuda::get()->driver().graph_launch(exec_, stream);
  }

 private:
  static cuda_api::BatchMemOpNodeParameters parameters_of(std::span<MemOp> words) {
    return {RawCuda::get()->context(), static_cast<unsigned>(words.size()), words.data(), 0};
  }

  cuda_api::Graph graph_ = nullptr;
  cuda_api::GraphNode copy_ = nullptr;
  cuda_api::GraphNode words_ = nullptr;
  cuda_api::GraphExec exec_ = nullptr;
};

class DriverGraphs : public DriverRules {
 protected:
  void SetUp() override {
    DriverRules::SetUp();
    if (!page_) return;
    target_ = backend_->allocate(kBytes).value();
    exported_ = filled(1);
  }
  static cuda_api::Memcpy3d copy_of(cuda_api::DevicePointer target,
                                    cuda_api::DevicePointer source) {
    cuda_api::Memcpy3d copy{};
    copy.source_type = cuda_api::MemoryType::device;
    copy.source_device = source;
    copy.target_type = cuda_api::MemoryType::device;
    copy.target_device = target;
    copy.width_bytes = kBytes;
    copy.height = 1;
    copy.depth = 1;
    return copy;
  }
  [[nodiscard]] cuda_api::Memcpy3d copy_from(const void* source) const {
    return copy_of(device_pointer(target_->data()), device_pointer(source));
  }
  [[nodiscard]] MemOp write(std::uint32_t index, std::uint64_t value) const {
    return {MemOpType::write_value_64, address(index), value, 0, 0, 0};
  }
  [[nodiscard]] std::vector<std::byte> target() const {
    return raw().read(target_->data(), kBytes);
  }

  std::unique_ptr<backend::Memory> target_;
  std::unique_ptr<backend::Memory> exported_;
};

TEST_F(DriverGraphs, AnExecutableKeepsItsNumberOfWords) {
  std::array<MemOp, 3> words{write(16, 1), write(17, 1), write(18, 1)};
  const CopyGraph graph(copy_from(exported_->data()), std::span(words).first(2));
  for (MemOp& word : words) word.value = 2;
  EXPECT_GIVES(invalid_value, graph.set_words(std::span(words).first(1)));
  EXPECT_GIVES(invalid_value, graph.set_words(words));
  EXPECT_GIVES(success, graph.launch(stream()));
  raw().finish(raw().stream());
  EXPECT_EQ(word(16).load(), 1U);  // what was refused changed nothing
  EXPECT_EQ(word(17).load(), 1U);
  EXPECT_EQ(word(18).load(), 0U);
  EXPECT_GIVES(success, graph.set_words(std::span(words).last(2)));
  EXPECT_GIVES(success, graph.launch(stream()));
  raw().finish(raw().stream());
  EXPECT_EQ(word(16).load(), 1U);
  EXPECT_EQ(word(17).load(), 2U);
  EXPECT_EQ(word(18).load(), 2U);
}

TEST_F(DriverGraphs, ALaunchKeepsWhatItWasLaunchedWith) {
  const auto second = filled(2);
  std::array<MemOp, 1> words{write(kDone, 1)};
  const CopyGraph graph(copy_from(exported_->data()), words);
  raw().expect(driver().stream_wait_value_64(stream(), address(kGate), 1, 0));
  EXPECT_GIVES(success, graph.launch(stream()));
  words[0] = write(kDone + 1, 1);
  EXPECT_GIVES(success, graph.set_words(words));
  EXPECT_GIVES(success, graph.set_copy(copy_from(second->data())));
  open(1);
  raw().finish(raw().stream());
  EXPECT_EQ(word(kDone).load(), 1U);
  EXPECT_EQ(word(kDone + 1).load(), 0U);
  EXPECT_EQ(target(), bytes_of(1));
  EXPECT_GIVES(success, graph.launch(stream()));
  raw().finish(raw().stream());
  EXPECT_EQ(word(kDone + 1).load(), 1U);
  EXPECT_EQ(target(), bytes_of(2));
}

TEST_F(DriverGraphs, AnExecutableMayGoWhileItsLaunchIsUnderWay) {
  std::array<MemOp, 1> words{write(kDone, 1)};
  raw().expect(driver().stream_wait_value_64(stream(), address(kGate), 1, 0));
  {
    const CopyGraph graph(copy_from(exported_->data()), words);
    EXPECT_GIVES(success, graph.launch(stream()));
  }
  open(1);
  page_->see(kDone, 1);
  EXPECT_EQ(target(), bytes_of(1));
}

// Three kinds: memory of the virtual memory calls, such memory that is mapped for reading only, and
// everything else.
TEST_F(DriverGraphs, ACopyKeepsItsKindsOfMemory) {
  const auto other = filled(2);
  const auto writable =
      backend_->import_memory(other->export_memory().value(), kBytes, os::Access::read_write)
          .value();
  const auto readable =
      backend_->import_memory(other->export_memory().value(), kBytes, os::Access::read_only)
          .value();
  std::byte* const allocated = raw().allocate(kBytes);
  void* pinned = nullptr;
  cuda_api::DevicePointer managed = 0;
  raw().expect(raw().mem_host_alloc(&pinned, kBytes, 0));
  raw().expect(raw().mem_alloc_managed(&managed, kBytes, cuda_api::kManagedGlobal));
  struct Kind {
    const char* name;
    const void* address;
    int number;
  };
  const std::array<Kind, 7> kinds{{{"own", exported_->data(), 0},
                                   {"another", other->data(), 0},
                                   {"import for writing", writable->data(), 0},
                                   {"import for reading", readable->data(), 1},
                                   {"cuMemAlloc", allocated, 2},
                                   {"managed", reinterpret_cast<const void*>(managed), 2},
                                   {"pinned", pinned, 2}}};
  std::array<MemOp, 1> words{write(kDone, 1)};
  for (const Kind& first : kinds) {
    for (const Kind& second : kinds) {
      SCOPED_TRACE(std::string(first.name) + ", then " + second.name);
      const Status wanted = first.number == second.number ? Status::success : Status::invalid_value;
      {
        const CopyGraph graph(copy_from(first.address), words);
        EXPECT_TRUE(gave(wanted, graph.set_copy(copy_from(second.address))));
      }
      if (first.number == 1 || second.number == 1) continue;  // is no target
      const CopyGraph graph(copy_of(device_pointer(first.address), device_pointer(target_->data())),
                            words);
      EXPECT_TRUE(gave(wanted, graph.set_copy(copy_of(device_pointer(second.address),
                                                      device_pointer(target_->data())))));
    }
  }
  {
    const CopyGraph graph(copy_from(exported_->data()), words);
    EXPECT_GIVES(invalid_value, graph.set_copy(copy_from(readable->data())));
    EXPECT_GIVES(success, graph.launch(stream()));  // what was refused changed nothing
    raw().finish(raw().stream());
    EXPECT_EQ(target(), bytes_of(1));
  }
  raw().expect(raw().mem_free_host(pinned));
  raw().expect(raw().mem_free(managed));
  raw().free(allocated);
}

}  // namespace
}  // namespace vramlink::test
