// Makes COUNT batches of pictures for CONSUMERS processes. Every consumer reads every batch in the
// memory that it was written to; the producer waits for the slowest.
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <numeric>
#include <span>
#include <utility>

#include <vramlink/vramlink.hpp>

namespace vl = vramlink;
using namespace std::chrono_literals;

constexpr std::array<std::uint64_t, 4> kShape = {32, 3, 64,
                                                 64};  // pictures, colours, rows, columns

std::uint64_t checksum(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0},
                         [](std::uint64_t sum, float value) {
                           return sum * 31 + std::bit_cast<std::uint32_t>(value);
                         });
}

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::cerr << "usage: batch_producer NAME COUNT CONSUMERS\n";
    return 2;
  }
  const int count = std::atoi(argv[2]);
  const auto consumers = static_cast<std::uint32_t>(std::atoi(argv[3]));
  const vl::Deadline deadline = 60s;  // for the whole job

  const vl::Runtime runtime = vl::Runtime::open().value();
  const vl::Format format = vl::Format::tensor(vl::DType::float32, kShape).value();
  vl::Publisher producer =
      vl::Publisher::open(runtime, argv[1], format, {.when_full = vl::WhenFull::block}).value();
  producer.wait_for_subscribers(consumers, deadline).value();

  std::uint64_t produced = 0;
  for (int number = 1; number <= count; ++number) {
    vl::WritableFrame batch = producer.claim(vl::kAlreadyComplete, deadline).value();
    const std::span<float> values = batch.as<float>().value();
    std::iota(values.begin(), values.end(), static_cast<float>(number));
    const std::uint64_t sum = checksum(values);
    const vl::FrameInfo info = {.user_data = std::as_bytes(std::span(&sum, 1))};
    produced = producer.publish(std::move(batch), vl::kAlreadyComplete, info).value().sequence();
  }
  producer.close(deadline).value();  // returns when every consumer has taken the last batch
  std::cout << "produced " << produced << " batches of " << vl::to_string(format) << '\n';
  return 0;
} catch (const std::exception& failure) {
  std::cerr << "batch_producer: " << failure.what() << '\n';
  return 1;
}
