// Question: what does one frame cost within one process, without another core in the way?
//
// Publisher and subscriber in one thread: claim, publish, receive, release of a 4 KiB frame, and
// the same with a copy. Not measured: anything between processes (process/latency.cpp).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include <vramlink/vramlink.hpp>

#include "harness/process.hpp"

using namespace vramlink;
using namespace std::chrono_literals;

namespace {

struct Pair {
  explicit Pair(std::uint64_t payload_bytes)
      : runtime(Runtime::open({.directory = directory.path()}).value()),
        publisher(Publisher::open(runtime, "micro", Format::bytes(payload_bytes).value()).value()),
        subscriber(Subscriber::open(runtime, "micro", Deadline::after(5s)).value()) {}

  bench::PrivateDirectory directory;  // goes last
  Runtime runtime;
  Publisher publisher;
  Subscriber subscriber;
};

void frame_in_place(benchmark::State& state) {
  Pair pair(4096);
  const StreamView stream = StreamView::already_complete();
  for (auto _ : state) {
    WritableFrame frame = pair.publisher.try_claim(stream).value();
    benchmark::DoNotOptimize(frame.data());
    pair.publisher.publish(std::move(frame), stream).value();
    const Frame received = pair.subscriber.try_receive().value();
    benchmark::DoNotOptimize(received.data());
  }
}
BENCHMARK(frame_in_place);

void frame_by_copy(benchmark::State& state) {
  const auto bytes = static_cast<std::uint64_t>(state.range(0));
  Pair pair(bytes);
  const std::vector<std::byte> source(bytes);
  for (auto _ : state) {
    pair.publisher.try_publish_copy(source, StreamView::already_complete()).value();
    const Frame received = pair.subscriber.try_receive().value();
    benchmark::DoNotOptimize(received.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK(frame_by_copy)->Arg(4096)->Arg(1920 * 1080 * 4);

void floor_copy(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> source(bytes);
  std::vector<std::byte> target(bytes);
  for (auto _ : state) {
    std::copy(source.begin(), source.end(), target.begin());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0));
}
BENCHMARK(floor_copy)->Arg(4096)->Arg(1920 * 1080 * 4);

void nothing_new(benchmark::State& state) {
  Pair pair(4096);
  for (auto _ : state) benchmark::DoNotOptimize(pair.subscriber.try_receive().has_value());
}
BENCHMARK(nothing_new);

}  // namespace

BENCHMARK_MAIN();
