// A small explicit-state model checker: it visits every state that a model can reach.
//
// A model is a class with a plain-bytes `State`, an initial state, a function that lists every step
// possible in a state, and a function that judges a state. The explorer knows nothing else about
// it.
//
// States are remembered by a 128-bit hash of all their bytes, not in full. A collision would hide a
// state (and what follows from it); it can never invent a violation, since a trace is replayed from
// the initial state. With n states and a hash that behaves like a random function the chance of any
// collision is below n * n / 2^129: for the largest runs here (10^8 states) 10^-22.
//
// Depth first finds violations soon and needs little memory; breadth first finds the shortest
// trace.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <type_traits>
#include <vector>

namespace vramlink::model {

// What a step does, for traces: every '%' of the text stands for the next number, every '$' for the
// next name.
struct Step {
  const char* text = "";
  std::array<std::uint8_t, 3> numbers = {};
  std::array<const char*, 2> names = {};
};

std::string to_string(const Step& step);

// Who moves. Only kRest must go on by itself: a publisher can be stopped for ever, a fault need not
// happen. A wait that needs one of the other two to end is a wait that may never end.
enum class Mover : std::uint8_t { kRest, kPublisherCpu, kFault };

// The steps possible in one state. `add` copies the state, and the caller changes the copy in
// place.
template <class State>
class Successors {
 public:
  struct Item {
    State state;
    Step step;
    Mover mover;
    const char* violation;
  };

  State& add(const State& from, Step step, Mover mover = Mover::kRest) {
    if (count_ == items_.size()) items_.resize(items_.size() * 2);
    items_[count_] = Item{from, step, mover, nullptr};
    return items_[count_++].state;
  }

  // The step added last breaks an invariant. The first reason counts.
  void violation(const char* reason) {
    if (items_[count_ - 1].violation == nullptr) items_[count_ - 1].violation = reason;
  }

  void clear() { count_ = 0; }
  std::size_t size() const { return count_; }
  const Item& operator[](std::size_t index) const { return items_[index]; }

  bool any(Mover mover) const {
    for (std::size_t index = 0; index < count_; ++index) {
      if (items_[index].mover == mover) return true;
    }
    return false;
  }

 private:
  // A State& from `add` lives until the next `add`; growing then is allowed.
  std::vector<Item> items_ = std::vector<Item>(64);
  std::size_t count_ = 0;
};

struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Hash128& other) const { return low == other.low && high == other.high; }
  bool is_zero() const { return low == 0 && high == 0; }
};

Hash128 hash_bytes(const void* bytes, std::size_t size);

// Open addressing, at most 70 per cent full; the all-zero hash marks an empty place.
class HashSet {
 public:
  bool insert(Hash128 hash);  // false: it was there already
  std::size_t size() const { return size_; }

 private:
  void grow();
  std::vector<Hash128> places_ = std::vector<Hash128>(1U << 12U);
  std::size_t size_ = 0;
};

enum class Order : std::uint8_t { kDepthFirst, kBreadthFirst };

struct Outcome {
  std::uint64_t state_count = 0;
  bool complete = true;  // false: the state limit ended the search
  std::string violation;
  std::vector<std::string> trace;
};

template <class Model>
class Explorer {
 public:
  using State = typename Model::State;
  static_assert(std::is_trivially_copyable_v<State>);
  static_assert(std::has_unique_object_representations_v<State>, "padding would spoil the hash");

  Explorer(const Model& model, Order order, std::size_t state_limit)
      : model_(model), order_(order), state_limit_(state_limit) {}

  Outcome run() {
    visit(model_.initial(), 0, 0);
    while (!pending_.empty() && outcome_.violation.empty()) {
      if (nodes_.size() >= state_limit_) {
        outcome_.complete = false;
        break;
      }
      expand(next());
    }
    outcome_.state_count = nodes_.size();
    return outcome_;
  }

 private:
  // How a state was first reached: the successor number `choice` of the state `parent`.
  struct Node {
    std::uint32_t parent;
    std::uint32_t choice;
  };
  struct Pending {
    State state;
    std::uint32_t node;
  };

  void visit(const State& state, std::uint32_t parent, std::uint32_t choice) {
    if (!visited_.insert(hash_bytes(&state, sizeof state))) return;
    pending_.push_back(Pending{state, static_cast<std::uint32_t>(nodes_.size())});
    nodes_.push_back(Node{parent, choice});
  }

  Pending next() {
    const bool from_back = order_ == Order::kDepthFirst;
    Pending entry = from_back ? pending_.back() : pending_.front();
    from_back ? pending_.pop_back() : pending_.pop_front();
    return entry;
  }

  void expand(const Pending& entry) {
    successors_.clear();
    model_.successors(entry.state, successors_);
    if (const char* reason = model_.check(entry.state, successors_))
      return report(entry.node, reason);
    for (std::uint32_t choice = 0; choice < successors_.size(); ++choice) {
      if (const char* reason = successors_[choice].violation) {
        const Step last = successors_[choice].step;
        report(entry.node, reason);
        outcome_.trace.push_back(to_string(last));
        return;
      }
      visit(successors_[choice].state, entry.node, choice);
    }
  }

  void report(std::uint32_t node, const char* reason) {
    outcome_.violation = reason;
    std::vector<std::uint32_t> choices;
    for (; node != 0; node = nodes_[node].parent) choices.push_back(nodes_[node].choice);
    State state = model_.initial();
    for (auto choice = choices.rbegin(); choice != choices.rend(); ++choice) {
      successors_.clear();
      model_.successors(state, successors_);
      outcome_.trace.push_back(to_string(successors_[*choice].step));
      state = successors_[*choice].state;
    }
  }

  const Model& model_;
  const Order order_;
  const std::size_t state_limit_;
  HashSet visited_;
  std::vector<Node> nodes_;
  std::deque<Pending> pending_;
  Successors<State> successors_;
  Outcome outcome_;
};

template <class Model>
Outcome explore(const Model& model, Order order, std::size_t state_limit) {
  return Explorer<Model>(model, order, state_limit).run();
}

}  // namespace vramlink::model
