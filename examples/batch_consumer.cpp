// Reads every batch of NAME where its producer wrote it, and verifies that COUNT came unharmed.
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <numeric>
#include <span>

#include <vramlink/vramlink.hpp>

namespace vl = vramlink;
using namespace std::chrono_literals;

std::uint64_t checksum(std::span<const float> values) {
  return std::accumulate(values.begin(), values.end(), std::uint64_t{0},
                         [](std::uint64_t sum, float value) {
                           return sum * 31 + std::bit_cast<std::uint32_t>(value);
                         });
}

bool is_unharmed(const vl::Frame& batch) {
  std::uint64_t expected = 0;
  if (batch.user_data().size() != sizeof expected) return false;
  std::memcpy(&expected, batch.user_data().data(), sizeof expected);
  return checksum(batch.as<float>().value()) == expected;
}

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::cerr << "usage: batch_consumer NAME COUNT\n";
    return 2;
  }
  const int count = std::atoi(argv[2]);
  const vl::Deadline deadline = 60s;  // for the whole job

  const vl::Runtime runtime = vl::Runtime::open().value();
  const vl::SubscriberOptions options = {.policy = vl::ReceivePolicy::queue(3),
                                         .reconnect = false};  // one job, then done
  vl::Subscriber consumer = vl::Subscriber::open(runtime, argv[1], deadline, options).value();
  int verified = 0;
  while (true) {
    const vl::Result<vl::Frame> batch = consumer.receive(deadline);
    if (batch.failed_with(vl::Code::closed)) break;  // that was the last one
    if (!is_unharmed(batch.value())) {
      std::cerr << "batch_consumer: batch " << batch->sequence() << " is damaged\n";
      return 1;
    }
    ++verified;
  }
  std::cout << "verified " << verified << " of " << count << " batches\n";
  return verified == count ? 0 : 1;
} catch (const std::exception& failure) {
  std::cerr << "batch_consumer: " << failure.what() << '\n';
  return 1;
}
