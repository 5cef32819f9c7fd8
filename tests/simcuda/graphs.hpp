// Graphs: nodes with their operations, and executable copies of them.
#pragma once

#include <array>
#include <cstdint>

#include "operations.hpp"

namespace vramlink::simcuda {

enum class NodeKind : std::uint8_t { empty, copy, fill, event_record, event_wait, words };

/// What an end of a copy was when its graph was made; an update keeps to it. `plain` is all that is
/// no memory of the virtual memory calls.
enum class EndKind : std::uint8_t { plain, mapped, mapped_for_reading };
struct CopyEnds {
  EndKind source = EndKind::plain;
  EndKind target = EndKind::plain;

  friend bool operator==(const CopyEnds&, const CopyEnds&) = default;
};

inline constexpr std::uint32_t kNodeMax = 4096;

/// A node of a graph, or of an executable graph.
struct Node {
  NodeKind kind = NodeKind::empty;
  std::uint32_t next = kNoRange;  ///< index of the next node of the same graph
  std::uint64_t origin = 0;       ///< of an executable's node: the handle of the graph's
  std::uint64_t owner = 0;        ///< the handle of the graph or executable
  api::Context context = nullptr;
  Copy copy;
  CopyEnds ends;  ///< of the copy
  Fill fill;
  api::Event event = nullptr;
  std::uint32_t word_count = 0;  ///< in node_words, at the node's index
};

/// Nodes are kept in the order in which they were added, in which each follows what it depends on.
struct Graph {
  std::uint32_t first = kNoRange;
  std::uint32_t last = kNoRange;
};

struct GraphExec {
  std::uint32_t first = kNoRange;
  const Counter* running = nullptr;  ///< the last launch: complete at running_end
  std::uint64_t running_end = 0;
};

std::uint32_t graph_count() noexcept;
std::uint32_t exec_count() noexcept;

}  // namespace vramlink::simcuda
