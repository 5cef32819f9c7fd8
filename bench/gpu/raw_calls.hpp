// The floors of publishing in GPU memory: what the driver alone costs.
#pragma once

#include <atomic>
#include <cstdlib>
#include <iostream>

#include "gpu/raw_driver.hpp"
#include "harness/process.hpp"
#include "harness/shared_results.hpp"

namespace vramlink::bench {

/// The driver's calls that publishing cannot do without.
class RawCalls {
 public:
  RawCalls(const RawDriver& driver, std::size_t copy_bytes)
      : driver_(driver),
        user_(driver.make_stream()),
        queue_(driver.make_stream()),
        words_(static_cast<std::atomic<std::uint64_t>*>(shared_memory(4096))),
        word_(driver.register_host(words_, 4096)),
        target_(driver.allocate(copy_bytes)) {
    driver_.check(driver_.event_create(&event_, cu::kEventDisableTiming), "cuEventCreate");
    // A graph waits only for an event that was recorded once.
    driver_.check(driver_.event_record(event_, user_), "cuEventRecord");
    make_graph(copy_bytes, driver.allocate(copy_bytes));
  }

  /// One batch of one word write, with what `and_then` does.
  template <class AndThen>
  [[nodiscard]] std::int64_t batch(AndThen&& and_then) {
    cu::MemOp write = next_write();
    const std::int64_t took_ns = time_of([&] {
      driver_.check(driver_.stream_batch_mem_op(user_, 1, &write, 0), "cuStreamBatchMemOp");
      and_then();
    });
    finish();
    return took_ns;
  }

  [[nodiscard]] std::int64_t batch() {
    return batch([] {});
  }

  /// An event and a graph of wait, copy and word write. With `source` not 0 the copy's address
  /// changes first.
  [[nodiscard]] std::int64_t graph(cu::DevicePointer source) {
    cu::MemOp write = next_write();
    const cu::BatchMemOpNodeParameters parameters{driver_.context(), 1, &write, 0};
    driver_.check(driver_.graph_exec_batch_mem_op_set(exec_, write_node_, &parameters),
                  "cuGraphExecBatchMemOpNodeSetParams");
    const std::int64_t took_ns = time_of([&] {
      if (source != 0) {
        copy_.source_device = source;
        driver_.check(driver_.graph_exec_memcpy_set(exec_, copy_node_, &copy_, driver_.context()),
                      "cuGraphExecMemcpyNodeSetParams");
      }
      driver_.check(driver_.event_record(event_, user_), "cuEventRecord");
      driver_.check(driver_.graph_launch(exec_, queue_), "cuGraphLaunch");
    });
    finish();
    return took_ns;
  }

 private:
  [[nodiscard]] cu::MemOp next_write() {
    return {cu::MemOpType::write_value_64, word_, ++value_, cu::kWriteDefault, 0, 0};
  }

  void finish() {
    if (!spin_until([&] { return words_->load(std::memory_order_acquire) == value_; })) {
      std::cerr << "a word write never came\n";
      std::exit(1);
    }
  }

  void make_graph(std::size_t copy_bytes, cu::DevicePointer source) {
    cu::Graph graph = nullptr;
    cu::GraphNode wait = nullptr;
    driver_.check(driver_.graph_create(&graph, 0), "cuGraphCreate");
    driver_.check(driver_.graph_add_event_wait_node(&wait, graph, nullptr, 0, event_),
                  "cuGraphAddEventWaitNode");
    copy_.source_type = cu::MemoryType::device;
    copy_.source_device = source;
    copy_.target_type = cu::MemoryType::device;
    copy_.target_device = target_;
    copy_.width_bytes = copy_bytes;
    copy_.height = 1;
    copy_.depth = 1;
    driver_.check(
        driver_.graph_add_memcpy_node(&copy_node_, graph, &wait, 1, &copy_, driver_.context()),
        "cuGraphAddMemcpyNode");
    cu::MemOp write = next_write();
    const cu::BatchMemOpNodeParameters parameters{driver_.context(), 1, &write, 0};
    driver_.check(
        driver_.graph_add_batch_mem_op_node(&write_node_, graph, &copy_node_, 1, &parameters),
        "cuGraphAddBatchMemOpNode");
    driver_.check(driver_.graph_instantiate(&exec_, graph, 0), "cuGraphInstantiate");
  }

  const RawDriver& driver_;
  cu::Stream user_;
  cu::Stream queue_;
  std::atomic<std::uint64_t>* words_;
  cu::DevicePointer word_;
  cu::DevicePointer target_;
  cu::Event event_ = nullptr;
  cu::GraphExec exec_ = nullptr;
  cu::GraphNode copy_node_ = nullptr;
  cu::GraphNode write_node_ = nullptr;
  cu::Memcpy3d copy_{};
  std::uint64_t value_ = 0;
};

}  // namespace vramlink::bench
