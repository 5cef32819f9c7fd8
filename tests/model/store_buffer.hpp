// x86-TSO for models: every CPU thread has a first-in first-out store buffer in front of one
// coherent memory.
//
// A release or relaxed store enters the buffer and reaches memory at any later time. A seq_cst
// store, and every read-modify-write, waits until the buffer is empty and then acts on memory at
// once. A load sees the newest own buffered store of its word, else memory. So a model can tell
// seq_cst stores from release stores; it cannot tell load orders apart, nor relaxed from release
// stores: x86 does not reorder those. Weaker machines are not modelled.
#pragma once

#include <cstdint>

namespace vramlink::model {

enum class StoreOrder : std::uint8_t { kRelease, kSequential };

template <int kCapacity>
struct StoreBuffer {
  struct Entry {
    std::uint8_t word;
    std::uint8_t value;
  };
  std::uint8_t count;
  Entry entries[kCapacity];

  bool empty() const { return count == 0; }
  bool can_store(StoreOrder order) const {
    return order == StoreOrder::kSequential ? count == 0 : count < kCapacity;
  }
  std::uint8_t load(const std::uint8_t* memory, std::uint8_t word) const {
    for (int index = count - 1; index >= 0; --index) {
      if (entries[index].word == word) return entries[index].value;
    }
    return memory[word];
  }
  // Precondition: can_store(order).
  void store(std::uint8_t* memory, std::uint8_t word, std::uint8_t value, StoreOrder order) {
    if (order == StoreOrder::kSequential) {
      memory[word] = value;
    } else {
      entries[count++] = Entry{word, value};
    }
  }
  bool holds(std::uint8_t word) const {
    for (int index = 0; index < count; ++index) {
      if (entries[index].word == word) return true;
    }
    return false;
  }
  // The oldest store reaches memory. Precondition: not empty.
  Entry drain(std::uint8_t* memory) {
    const Entry oldest = entries[0];
    memory[oldest.word] = oldest.value;
    for (int index = 1; index < count; ++index) entries[index - 1] = entries[index];
    entries[--count] = Entry{0, 0};  // unused bytes stay zero: equal states have equal bytes
    return oldest;
  }
};

}  // namespace vramlink::model
