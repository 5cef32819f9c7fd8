// Which calls of the driver stop while a stream of their context stands still, and which do not:
// the heading "Four driver calls stop while a stream waits" of docs/cuda_notes.md.
#include <vector>

#include "conformance/driver_fixture.hpp"

namespace vramlink::test {
namespace {

using cuda_api::Status;

/// What a stream stands still behind.
enum class Holder : std::uint8_t { word, kernel };
const char* name_of(Holder holder) {
  return holder == Holder::word ? "BehindAWord" : "BehindAKernel";
}
void PrintTo(Holder holder, std::ostream* stream) { *stream << name_of(holder); }

class DriverStops : public DriverRules, public ::testing::WithParamInterface<Holder> {
 protected:
  void SetUp() override {
    DriverRules::SetUp();
    if (page_) kernels_.emplace(raw());
  }
  void TearDown() override {
    DriverRules::TearDown();
    kernels_.reset();
  }
  /// The stream stands still until open(value).
  void hold(std::uint64_t value) {
    static_cast<void>(raw().stream());  // makes the context current
    raw().expect(GetParam() == Holder::word
                     ? driver().stream_wait_value_64(stream(), address(kGate), value, 0)
                     : kernels_->spin_until(raw().stream(), address(kGate), value));
  }

  std::optional<TestKernels> kernels_;
};

INSTANTIATE_TEST_SUITE_P(, DriverStops, ::testing::Values(Holder::word, Holder::kernel),
                         [](const auto& parameter) { return name_of(parameter.param); });

TEST_P(DriverStops, FourCallsStop) {
  cuda_api::DevicePointer plain = 0;
  void* pinned = nullptr;
  cuda_api::Module module = nullptr;
  const os::Mapping pages =
      os::SharedSegment::create("pages", 4096).value().map(os::Access::read_write).value();
  raw().expect(raw().mem_alloc(&plain, kBytes));
  raw().expect(raw().mem_host_alloc(&pinned, kBytes, 0));
  raw().expect(driver().mem_host_register(pages.data(), pages.size_bytes(), 3));
  struct Stop {
    const char* name;
    std::function<Status()> call;
    bool loads = false;
  };
  const std::array<Stop, 4> stops{{
      {"cuMemFree", [&] { return raw().mem_free(plain); }},
      {"cuMemFreeHost", [&] { return raw().mem_free_host(pinned); }},
      {"cuMemHostUnregister", [&] { return driver().mem_host_unregister(pages.data()); }},
      {"cuModuleLoadData", [&] { return raw().module_load_data(&module, kTestKernels); }, true},
  }};
  std::uint64_t round = 0;
  for (const Stop& stop : stops) {
    SCOPED_TRACE(stop.name);
    hold(++round);
    const Caller caller(stop.call);
    let_calls_pass();
    EXPECT_FALSE(caller.has_returned());
    // Words of other streams are stored nevertheless, except while a module is loaded.
    if (!stop.loads) {
      let_time_pass();
      EXPECT_FALSE(caller.has_returned());
    }
    open(round);
  }
  raw().finish(raw().stream());
  raw().expect(raw().module_unload(module));
}

TEST_P(DriverStops, ACopyToOrdinaryHostMemoryStops) {
  const auto memory = filled(3);
  std::vector<std::byte> host(kBytes);
  hold(1);
  {
    const Caller caller([&] {
      return driver().memcpy_dtoh_async(host.data(), device_pointer(memory->data()), kBytes,
                                        stream());
    });
    let_calls_pass();
    EXPECT_FALSE(caller.has_returned());
    open(1);
  }
  EXPECT_EQ(host, bytes_of(3));
}

TEST_P(DriverStops, NothingElseStops) {
  std::vector<cuda_api::DevicePointer> plain;
  std::vector<void*> pinned;
  std::vector<os::Mapping> registered;
  const auto everything_else = [&] {
    // The virtual memory calls.
    cuda_api::AllocationProperties properties{};
    properties.type = cuda_api::AllocationType::pinned;
    properties.requested_handle_types = cuda_api::HandleType::posix_file_descriptor;
    properties.location = {cuda_api::LocationType::device, raw().devices()[0]};
    const cuda_api::AccessDescriptor access{properties.location, cuda_api::AccessFlags::read_write};
    cuda_api::MemoryHandle handle = 0;
    cuda_api::DevicePointer mapped = 0;
    raw().expect(driver().mem_create(&handle, kUnit, &properties, 0));
    raw().expect(driver().mem_address_reserve(&mapped, kUnit, 0, 0, 0));
    raw().expect(driver().mem_map(mapped, kUnit, 0, handle, 0));
    raw().expect(driver().mem_set_access(mapped, kUnit, &access, 1));
    raw().expect(driver().mem_unmap(mapped, kUnit));
    raw().expect(driver().mem_address_free(mapped, kUnit));
    raw().expect(driver().mem_release(handle));
    // What makes memory that is freed by a call that stops.
    raw().expect(raw().mem_alloc(&plain.emplace_back(), kBytes));
    raw().expect(raw().mem_host_alloc(&pinned.emplace_back(), kBytes, 0));
    const os::Mapping& pages = registered.emplace_back(
        os::SharedSegment::create("pages", 4096).value().map(os::Access::read_write).value());
    raw().expect(driver().mem_host_register(pages.data(), pages.size_bytes(), 3));
    // Graphs.
    cuda_api::Graph graph = nullptr;
    cuda_api::GraphNode node = nullptr;
    cuda_api::GraphExec exec = nullptr;
    cuda_api::MemOp write{cuda_api::MemOpType::write_value_64, address(kDone), 1, 0, 0, 0};
    const cuda_api::BatchMemOpNodeParameters words{raw().context(), 1, &write, 0};
    raw().expect(driver().graph_create(&graph, 0));
    raw().expect(driver().graph_add_batch_mem_op_node(&node, graph, nullptr, 0, &words));
    raw().expect(driver().graph_instantiate(&exec, graph, 0));
    raw().expect(driver().graph_exec_destroy(exec));
    raw().expect(driver().graph_destroy(graph));
    // Streams, also one that waits, and events.
    cuda_api::Stream waiting = nullptr;
    cuda_api::Event event = nullptr;
    raw().expect(driver().stream_create(&waiting, cuda_api::kStreamNonBlocking));
    raw().expect(driver().event_create(&event, cuda_api::kEventDisableTiming));
    raw().expect(driver().stream_wait_value_64(waiting, address(kGate), 1, 0));
    raw().expect(driver().event_record(event, waiting));
    raw().expect(driver().event_destroy(event));
    raw().expect(driver().stream_destroy(waiting));
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    raw().expect(driver().mem_get_info(&free_bytes, &total_bytes));
  };
  // The first time a driver loads what it needs for a thing, and that may stop.
  open(1);
  everything_else();
  open(0);
  hold(1);
  everything_else();
  EXPECT_TRUE(raw().is_busy(raw().stream()));
  open(1);
  raw().finish(raw().stream());
  for (const auto memory : plain) raw().expect(raw().mem_free(memory));
  for (void* memory : pinned) raw().expect(raw().mem_free_host(memory));
  for (const os::Mapping& pages : registered) {
    raw().expect(driver().mem_host_unregister(pages.data()));
  }
}

TEST_P(DriverStops, WorkOfOtherThreadsStaysBehindACallThatStops) {
  const auto memory = filled(1);
  const StreamView view = raw().other_stream();
  const cuda_api::Stream other = raw_stream(view);
  cuda_api::Event event = nullptr;
  cuda_api::Graph graph = nullptr;
  cuda_api::GraphNode node = nullptr;
  cuda_api::GraphExec exec = nullptr;
  cuda_api::MemOp write{cuda_api::MemOpType::write_value_64, address(kDone), 1, 0, 0, 0};
  const cuda_api::BatchMemOpNodeParameters words{raw().context(), 1, &write, 0};
  raw().expect(driver().event_create(&event, cuda_api::kEventDisableTiming));
  raw().expect(driver().graph_create(&graph, 0));
  raw().expect(driver().graph_add_batch_mem_op_node(&node, graph, nullptr, 0, &words));
  raw().expect(driver().graph_instantiate(&exec, graph, 0));
  struct Work {
    const char* name;
    std::function<Status()> submit;
  };
  const cuda_api::DevicePointer bytes = device_pointer(memory->data());
  const std::array<Work, 5> all{{
      {"a kernel", [&] { return kernels_->spin_until(view, address(kBeat), 0); }},  // ends at once
      {"a record of an event", [&] { return driver().event_record(event, other); }},
      {"a copy", [&] { return driver().memcpy_dtod_async(bytes, bytes + 64, 64, other); }},
      {"a fill", [&] { return driver().memset_d8_async(bytes, 1, 64, other); }},
      {"a graph", [&] { return driver().graph_launch(exec, other); }},
  }};
  std::uint64_t round = 0;
  for (const Work& work : all) {
    SCOPED_TRACE(work.name);
    raw().expect(work.submit());  // for what the driver loads the first time
    raw().finish(view);
    void* pinned = nullptr;
    raw().expect(raw().mem_host_alloc(&pinned, kBytes, 0));
    hold(++round);
    const Caller stopped([&] { return raw().mem_free_host(pinned); });
    std::atomic<std::uint64_t> begun{0};
    std::atomic<std::uint64_t> submitted{0};
    const Caller submitter([&] {
      for (bool is_last = false; !is_last;) {
        is_last = word(kGate).load() >= round;
        begun.fetch_add(1);
        raw().expect(work.submit());
        submitted.fetch_add(1);
      }
      return Status::success;
    });
    // A submission that has begun, and does not return while a hundred words are stored, has
    // stopped.
    std::uint64_t before = 0;
    for (int same = 0; same < 100 && word(kGate).load() < round;) {
      const std::uint64_t now = submitted.load();
      same = begun.load() > now && now == before ? same + 1 : 0;
      before = now;
      let_time_pass(1);
    }
    EXPECT_FALSE(stopped.has_returned());
    EXPECT_FALSE(submitter.has_returned());
    open(round);
  }
  raw().finish(view);
  raw().expect(driver().event_destroy(event));
  raw().expect(driver().graph_exec_destroy(exec));
  raw().expect(driver().graph_destroy(graph));
}

}  // namespace
}  // namespace vramlink::test
