// Publishers that die in a state rather than at a step.
#include <signal.h>
#include <unistd.h>

#include "base/steps.hpp"
#include "scoreboard.hpp"
#include "support/frame_pattern.hpp"
#include "victims.hpp"

namespace vramlink::test {
namespace {

Publisher open(const Runtime& runtime, const Orders& orders) {
  return Publisher::open(runtime, orders.name, Format::bytes(kPayloadBytes).value(),
                         publisher_options(orders.mode))
      .value();
}

void publish(Publisher& publisher, std::uint64_t& sequence) {
  auto frame = publisher.claim(StreamView::already_complete(), kForever);
  if (!frame) return;
  if (publish_pattern(publisher, *std::move(frame), {1, sequence + 1})) ++sequence;
}

const ChildLink* hook_link = nullptr;

void say_when_waiting(const char* step) {
  if (std::string_view(step) == "claim.waiting") hook_link->ready();
}

}  // namespace

int run_forking_publisher(const Orders& orders, const ChildLink& link) {
  const auto runtime = Runtime::open({orders.directory}).value();
  Publisher publisher = open(runtime, orders);
  std::uint64_t sequence = 0;
  publish(publisher, sequence);
  if (::fork() == 0) {
    // Holds every descriptor open until the test is over.
    char byte = 0;
    while (::read(SpawnedProcess::kHearFd, &byte, 1) > 0) {
    }
    ::_exit(0);
  }
  link.ready();
  link.wait_forever();
}

int run_sleeping_publisher(const Orders& orders, const ChildLink& link) {
  const auto runtime = Runtime::open({orders.directory}).value();
  Publisher publisher = open(runtime, orders);
  link.ready();
  static_cast<void>(link.wait_go());
  static_cast<void>(publisher.wait_for_subscribers(1, kForever));
  hook_link = &link;
  base::step_hook.store(&say_when_waiting);
  std::uint64_t sequence = 0;
  while (true) {
    publish(publisher, sequence);
    // So that a claim sleeps for the queue, and not for work of the device.
    if (!TestDevice::is_host()) TestDevice::finish(TestDevice::stream());
  }
}

int run_waiting_publisher(const Orders& orders, const ChildLink& link) {
  install_hook(orders, link);
  const auto runtime = Runtime::open({orders.directory}).value();
  Publisher publisher = open(runtime, orders);
  link.ready();
  static_cast<void>(link.wait_go());
  static_cast<void>(publisher.wait_for_subscribers(1, kForever));
  std::uint64_t sequence = 0;
  while (true) publish(publisher, sequence);
}

int run_opening_publisher(const Orders& orders, const ChildLink& link) {
  const auto runtime = Runtime::open({orders.directory}).value();
  bool said = false;
  while (true) {
    const Publisher publisher = open(runtime, orders);
    if (!std::exchange(said, true)) link.ready();
  }
}

}  // namespace vramlink::test
