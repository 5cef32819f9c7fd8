// Graphs, and what can be changed in an executable one.
#include "driver_fixture.hpp"

namespace vramlink::simcuda {
namespace {

api::Memcpy3d copy_of(api::DevicePointer target, api::DevicePointer source, std::size_t size) {
  api::Memcpy3d copy{};
  copy.source_type = api::MemoryType::device;
  copy.source_device = source;
  copy.target_type = api::MemoryType::device;
  copy.target_device = target;
  copy.width_bytes = size;
  copy.height = 1;
  copy.depth = 1;
  return copy;
}

/// What a publisher of copies uses: wait for an event, copy, store words.
class CopyGraph {
 public:
  CopyGraph(const Device& device, api::Event event, const api::Memcpy3d& copy,
            std::span<api::MemOp> words)
      : context_(device.context) {
    EXPECT_STATUS(success, cuGraphCreate(&graph_, 0));
    api::GraphNode wait = nullptr;
    EXPECT_STATUS(success, cuGraphAddEventWaitNode(&wait, graph_, nullptr, 0, event));
    EXPECT_STATUS(success, cuGraphAddMemcpyNode(&copy_node, graph_, &wait, 1, &copy, context_));
    const api::BatchMemOpNodeParameters parameters{context_, static_cast<unsigned>(words.size()),
                                                   words.data(), 0};
    EXPECT_STATUS(success,
                  cuGraphAddBatchMemOpNode(&words_node, graph_, &copy_node, 1, &parameters));
    EXPECT_STATUS(success, cuGraphInstantiateWithFlags(&exec, graph_, 0));
  }
  CopyGraph(const CopyGraph&) = delete;
  CopyGraph& operator=(const CopyGraph&) = delete;
  ~CopyGraph() {
    EXPECT_STATUS(success, cuGraphExecDestroy(exec));
    EXPECT_STATUS(success, cuGraphDestroy(graph_));
  }

  [[nodiscard]] Status set_words(std::span<api::MemOp> words) const {
    const api::BatchMemOpNodeParameters parameters{context_, static_cast<unsigned>(words.size()),
                                                   words.data(), 0};
    return cuGraphExecBatchMemOpNodeSetParams(exec, words_node, &parameters);
  }
  [[nodiscard]] Status set_copy(const api::Memcpy3d& copy) const {
    return cuGraphExecMemcpyNodeSetParams(exec, copy_node, &copy, context_);
  }

  api::GraphNode copy_node = nullptr;
  api::GraphNode words_node = nullptr;
  api::GraphExec exec = nullptr;

 private:
  api::Context context_;
  api::Graph graph_ = nullptr;
};

class Graphs : public DriverTest {
 protected:
  Graphs() { EXPECT_STATUS(success, cuEventCreate(&event_, api::kEventDisableTiming)); }
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;
  ~Graphs() override { EXPECT_STATUS(success, cuEventDestroy_v2(event_)); }

  [[nodiscard]] unsigned word_of(api::DevicePointer address) const {
    unsigned value = 0;
    EXPECT_STATUS(success, cuMemcpyDtoHAsync_v2(&value, address, 4, device_.stream));
    return value;
  }

  Device device_;
  MappedMemory memory_;
  RegisteredPage page_;
  api::Event event_ = nullptr;
};

TEST_F(Graphs, OneLaunchWaitsCopiesAndStores) {
  const api::DevicePointer source = memory_.address();
  const api::DevicePointer target = source + (1 << 20);
  api::MemOp word{api::MemOpType::write_value_64, page_.address(0), 1, 0, 0, 0};
  CopyGraph graph(device_, event_, copy_of(target, source, 4096), {&word, 1});
  api::Stream source_stream = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&source_stream, api::kStreamNonBlocking));
  for (std::uint64_t round = 1; round <= 3; ++round) {
    // The source is complete only when word 1 says so.
    EXPECT_STATUS(success, cuStreamWaitValue64_v2(source_stream, page_.address(1), round, 0));
    EXPECT_STATUS(success,
                  cuMemsetD32Async(source, static_cast<unsigned>(round), 1024, source_stream));
    EXPECT_STATUS(success, cuEventRecord(event_, source_stream));
    word.value = round;
    EXPECT_STATUS(success, graph.set_words({&word, 1}));
    EXPECT_STATUS(success, cuGraphLaunch(graph.exec, device_.stream));
    let_device_look();
    EXPECT_STATUS(not_ready, cuStreamQuery(device_.stream));
    EXPECT_EQ(page_[0].load(), round - 1);
    page_[1].store(round);
    wait_until(page_[0], round);
    EXPECT_EQ(word_of(target + 4092), round);
  }
  EXPECT_STATUS(success, cuStreamDestroy_v2(source_stream));
}

TEST_F(Graphs, AnUpdateDoesNotChangeALaunchThatWasMade) {
  api::MemOp word{api::MemOpType::write_value_64, page_.address(0), 1, 0, 0, 0};
  CopyGraph graph(device_, event_, copy_of(memory_.address(), memory_.address() + 64, 64),
                  {&word, 1});
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device_.stream, page_.address(1), 1, 0));
  EXPECT_STATUS(success, cuGraphLaunch(graph.exec, device_.stream));
  word.address = page_.address(2);
  EXPECT_STATUS(success, graph.set_words({&word, 1}));
  EXPECT_STATUS(success, cuGraphLaunch(graph.exec, device_.stream));
  page_[1].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(device_.stream));
  EXPECT_EQ(page_[0].load(), 1U);
  EXPECT_EQ(page_[2].load(), 1U);
}

TEST_F(Graphs, LaunchesOfOneExecutableFollowEachOther) {
  api::MemOp word{api::MemOpType::write_value_64, page_.address(0), 1, 0, 0, 0};
  CopyGraph graph(device_, event_, copy_of(memory_.address(), memory_.address() + 64, 64),
                  {&word, 1});
  api::Stream other = nullptr;
  EXPECT_STATUS(success, cuStreamCreate(&other, api::kStreamNonBlocking));
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device_.stream, page_.address(1), 1, 0));
  EXPECT_STATUS(success, cuGraphLaunch(graph.exec, device_.stream));
  EXPECT_STATUS(success, cuGraphLaunch(graph.exec, other));
  let_device_look();
  EXPECT_STATUS(not_ready, cuStreamQuery(other));
  EXPECT_EQ(page_[0].load(), 0U);
  page_[1].store(1);
  EXPECT_STATUS(success, cuStreamSynchronize(other));
  EXPECT_EQ(page_[0].load(), 1U);
  EXPECT_STATUS(success, cuStreamDestroy_v2(other));
}

TEST_F(Graphs, TheNumberOfWordsIsFixed) {
  std::array<api::MemOp, 3> words{};
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = {api::MemOpType::write_value_64, page_.address(i), 1, 0, 0, 0};
  }
  CopyGraph graph(device_, event_, copy_of(memory_.address(), memory_.address() + 64, 64),
                  std::span(words).first(2));
  EXPECT_STATUS(invalid_value, graph.set_words(std::span(words).first(1)));
  EXPECT_STATUS(invalid_value, graph.set_words(words));
  words[1].flags = 1;  // without a memory barrier
  EXPECT_STATUS(invalid_value, graph.set_words(std::span(words).first(2)));
  EXPECT_STATUS(success, cuGraphLaunch(graph.exec, device_.stream));
  EXPECT_STATUS(success, cuStreamSynchronize(device_.stream));
  EXPECT_EQ(page_[1].load(), 1U);
  EXPECT_EQ(page_[2].load(), 0U);
}

TEST_F(Graphs, ACopyCanGetOtherAddressesOfTheSameKind) {
  api::MemOp word{api::MemOpType::write_value_64, page_.address(0), 1, 0, 0, 0};
  const api::DevicePointer target = memory_.address();
  CopyGraph graph(device_, event_, copy_of(target, target + 64, 64), {&word, 1});
  EXPECT_STATUS(success, cuMemsetD32Async(target + 128, 77, 16, device_.stream));
  EXPECT_STATUS(success, graph.set_copy(copy_of(target, target + 128, 64)));
  EXPECT_STATUS(success, cuGraphLaunch(graph.exec, device_.stream));
  EXPECT_EQ(word_of(target + 60), 77U);
  api::Memcpy3d from_host = copy_of(target, 0, 64);
  from_host.source_type = api::MemoryType::host;
  from_host.source_host = &page_[0];
  EXPECT_STATUS(invalid_value, graph.set_copy(from_host));
  EXPECT_STATUS(invalid_value, graph.set_copy(copy_of(target, 4096, 64)));
  EXPECT_STATUS(invalid_value, cuGraphExecMemcpyNodeSetParams(graph.exec, graph.words_node,
                                                              &from_host, device_.context));
}

TEST_F(Graphs, AWaitInAGraphIsReleasedByAWord) {
  std::array<api::MemOp, 2> words{
      api::MemOp{api::MemOpType::wait_value_64, page_.address(0), 3, 0, 0, 0},
      api::MemOp{api::MemOpType::write_value_64, page_.address(1), 4, 0, 0, 0}};
  CopyGraph graph(device_, event_, copy_of(memory_.address(), memory_.address() + 64, 64), words);
  EXPECT_STATUS(success, cuGraphUpload(graph.exec, device_.stream));
  EXPECT_STATUS(success, cuStreamSynchronize(device_.stream));
  EXPECT_EQ(page_[1].load(), 0U);
  EXPECT_STATUS(success, cuGraphLaunch(graph.exec, device_.stream));
  let_device_look();
  EXPECT_STATUS(not_ready, cuStreamQuery(device_.stream));
  EXPECT_EQ(page_[1].load(), 0U);
  page_[0].store(3);
  EXPECT_STATUS(success, cuStreamSynchronize(device_.stream));
  EXPECT_EQ(page_[1].load(), 4U);
}

TEST_F(Graphs, OtherNodesRunInTheirOrder) {
  api::Graph graph = nullptr;
  api::GraphExec exec = nullptr;
  std::array<api::GraphNode, 3> nodes{};
  EXPECT_STATUS(success, cuGraphCreate(&graph, 0));
  EXPECT_STATUS(success, cuGraphAddEmptyNode(&nodes[0], graph, nullptr, 0));
  const MemsetNodeParameters fill{memory_.address(), 0, 5, 4, 256, 1};
  EXPECT_STATUS(success,
                cuGraphAddMemsetNode(&nodes[1], graph, &nodes[0], 1, &fill, device_.context));
  EXPECT_STATUS(success, cuGraphAddEventRecordNode(&nodes[2], graph, &nodes[1], 1, event_));
  EXPECT_STATUS(success, cuGraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_STATUS(success, cuGraphDestroy(graph));
  EXPECT_STATUS(success, cuStreamWaitValue64_v2(device_.stream, page_.address(0), 1, 0));
  EXPECT_STATUS(success, cuGraphLaunch(exec, device_.stream));
  let_device_look();
  EXPECT_STATUS(not_ready, cuEventQuery(event_));
  page_[0].store(1);
  EXPECT_STATUS(success, cuEventSynchronize(event_));
  EXPECT_EQ(word_of(memory_.address() + 1020), 5U);
  EXPECT_STATUS(success, cuGraphExecDestroy(exec));
  EXPECT_STATUS(invalid_value, cuGraphLaunch(exec, device_.stream));
  EXPECT_EQ(ledger().graphs, 0U);
  EXPECT_EQ(ledger().graph_execs, 0U);
}

// A graph that waits for one event, then records another.
TEST_F(Graphs, EventsOfAnExecutableCanBeExchanged) {
  api::Event other = nullptr;
  api::Event recorded = nullptr;
  api::Event other_recorded = nullptr;
  for (api::Event* event : {&other, &recorded, &other_recorded}) {
    EXPECT_STATUS(success, cuEventCreate(event, api::kEventDisableTiming));
  }
  api::Graph graph = nullptr;
  api::GraphExec exec = nullptr;
  api::GraphNode wait = nullptr;
  api::GraphNode record = nullptr;
  EXPECT_STATUS(success, cuGraphCreate(&graph, 0));
  EXPECT_STATUS(success, cuGraphAddEventWaitNode(&wait, graph, nullptr, 0, event_));
  EXPECT_STATUS(success, cuGraphAddEventRecordNode(&record, graph, &wait, 1, recorded));
  EXPECT_STATUS(success, cuGraphInstantiateWithFlags(&exec, graph, 0));
  // One event is held back by word 0, the other one by word 1.
  std::array<api::Stream, 2> streams{};
  for (std::size_t i = 0; i < streams.size(); ++i) {
    EXPECT_STATUS(success, cuStreamCreate(&streams[i], api::kStreamNonBlocking));
    EXPECT_STATUS(success, cuStreamWaitValue64_v2(streams[i], page_.address(i), 1, 0));
    EXPECT_STATUS(success, cuEventRecord(i == 0 ? event_ : other, streams[i]));
  }
  EXPECT_STATUS(success, cuGraphExecEventWaitNodeSetEvent(exec, wait, other));
  EXPECT_STATUS(success, cuGraphExecEventRecordNodeSetEvent(exec, record, other_recorded));
  EXPECT_STATUS(success, cuGraphLaunch(exec, device_.stream));
  // This launch keeps what it has.
  EXPECT_STATUS(success, cuGraphExecEventWaitNodeSetEvent(exec, wait, event_));
  EXPECT_STATUS(success, cuGraphExecEventRecordNodeSetEvent(exec, record, recorded));
  let_device_look();
  EXPECT_STATUS(not_ready, cuEventQuery(other_recorded));
  EXPECT_STATUS(success, cuEventQuery(recorded));  // never recorded
  page_[1].store(1);
  EXPECT_STATUS(success, cuEventSynchronize(other_recorded));
  EXPECT_STATUS(success, cuGraphLaunch(exec, device_.stream));
  let_device_look();
  EXPECT_STATUS(not_ready, cuEventQuery(recorded));
  EXPECT_STATUS(success, cuEventQuery(other_recorded));
  page_[0].store(1);
  EXPECT_STATUS(success, cuEventSynchronize(recorded));

  EXPECT_STATUS(invalid_value, cuGraphExecEventWaitNodeSetEvent(exec, record, other));
  EXPECT_STATUS(invalid_value, cuGraphExecEventRecordNodeSetEvent(exec, wait, other));
  EXPECT_STATUS(success, cuGraphExecDestroy(exec));
  EXPECT_STATUS(success, cuGraphDestroy(graph));
  for (const api::Event event : {other, recorded, other_recorded}) {
    EXPECT_STATUS(success, cuEventDestroy_v2(event));
  }
  EXPECT_STATUS(invalid_value, cuGraphExecEventWaitNodeSetEvent(exec, wait, event_));
  for (const api::Stream stream : streams) EXPECT_STATUS(success, cuStreamDestroy_v2(stream));
}

TEST_F(Graphs, WhatIsNoNodeOfTheGraphIsRefused) {
  api::Graph first = nullptr;
  api::Graph second = nullptr;
  api::GraphNode node = nullptr;
  api::GraphNode other = nullptr;
  EXPECT_STATUS(success, cuGraphCreate(&first, 0));
  EXPECT_STATUS(success, cuGraphCreate(&second, 0));
  EXPECT_STATUS(success, cuGraphAddEmptyNode(&node, first, nullptr, 0));
  EXPECT_STATUS(invalid_value, cuGraphAddEmptyNode(&other, second, &node, 1));
  api::Memcpy3d rows = copy_of(memory_.address(), memory_.address() + 64, 64);
  rows.height = 2;
  EXPECT_STATUS(not_supported,
                cuGraphAddMemcpyNode(&other, first, &node, 1, &rows, device_.context));
  EXPECT_STATUS(success, cuGraphDestroy(second));
  EXPECT_STATUS(invalid_value, cuGraphDestroy(second));
  EXPECT_STATUS(success, cuGraphDestroy(first));
}

}  // namespace
}  // namespace vramlink::simcuda
