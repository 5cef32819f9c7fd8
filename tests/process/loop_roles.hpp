// The programs of the loops over driver calls: a publisher, a subscriber, and a second publisher of
// the same name. One of the first two, the victim, meets a planted fault; all of them look at what
// every public call says, and at what they leave behind.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "simcuda/simcuda.hpp"
#include "support/child_process.hpp"

namespace vramlink::test {

/// What the programs tell one another and the test, at the beginning of a SharedPage.
struct LoopBoard {
  struct Program {
    std::atomic<std::uint32_t> frames;  ///< published, or received
    std::atomic<std::uint32_t> errors;  ///< calls that ended with an error that is no outcome
    std::atomic<std::uint32_t> calls;   ///< of the driver, the library's
    std::atomic<std::uint32_t> met;     ///< planted faults
  };
  Program first;
  Program subscriber;
  Program second;
  std::atomic<std::uint32_t> frames_of_second;  ///< that the subscriber received
  std::atomic<std::uint32_t> attached;          ///< the subscriber is
  std::atomic<std::uint32_t> subscriber_over;   ///< it receives no more
  std::atomic<std::uint32_t> second_closed;     ///< nothing more will come
};

/// What the programs are told.
struct LoopOrders {
  std::string directory;
  LoopBoard* board = nullptr;
  std::optional<simcuda::Fault> fault;  ///< of this program
};

/// Bodies of children. They end with 0, or an expectation in them has failed.
int run_first_publisher(const LoopOrders& orders);
int run_loop_subscriber(const LoopOrders& orders);
/// Begins when it is told to. Its last look at the GPU's memory waits for another go(): by then
/// nobody else must hold any.
int run_second_publisher(const LoopOrders& orders, const ChildLink& link);

}  // namespace vramlink::test
