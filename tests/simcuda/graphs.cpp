#include "graphs.hpp"

#include "ipc_events.hpp"

namespace vramlink::simcuda {
namespace {

constexpr std::size_t kDependenciesMax = 256;

Pool<Graph, HandleKind::graph, 512> graphs;
Pool<GraphExec, HandleKind::exec, 1024> execs;
Pool<Node, HandleKind::node, kNodeMax> nodes;
std::array<std::array<api::MemOp, kBatchMax>, kNodeMax> node_words;

std::span<api::MemOp> words_of(const Node& node) noexcept {
  return std::span(node_words[nodes.index_of(&node)]).first(node.word_count);
}

template <class Visit>
void for_nodes(std::uint32_t first, const Visit& visit) noexcept {
  for (std::uint32_t i = first; i != kNoRange;) {
    Node& node = nodes.at(i);
    i = node.next;
    visit(node);
  }
}

void remove_nodes(std::uint32_t first) noexcept {
  for_nodes(first, [](Node& node) { nodes.remove(&node); });
}

/// The context that a node names, or the current one.
Context* context_for(api::Context handle) noexcept {
  return handle == nullptr ? current_context() : find_context(handle);
}

/// The same for a node that is made: invalid_context, or the context's fault.
Status find_owner(api::Context handle, Context*& owner) noexcept {
  owner = context_for(handle);
  return owner == nullptr ? Status::invalid_context : fault_of(index_of(*owner));
}

/// Adds a node to a graph once all that can be wrong with it was looked at.
Status add_node(api::GraphNode* handle, api::Graph graph_handle, const api::GraphNode* dependencies,
                std::size_t count, const Node& wanted, std::span<const api::MemOp> words) noexcept {
  Graph* graph = graphs.find(graph_handle);
  if (handle == nullptr || graph == nullptr || (count > 0 && dependencies == nullptr) ||
      count > kDependenciesMax) {
    return Status::invalid_value;
  }
  const std::uint64_t owner = graphs.handle_of(graph);
  for (std::size_t i = 0; i < count; ++i) {
    const Node* before = nodes.find(dependencies[i]);
    if (before == nullptr || before->owner != owner) return Status::invalid_value;
  }
  Node* node = nodes.add();
  if (node == nullptr) return Status::out_of_memory;
  *node = wanted;
  node->owner = owner;
  node->word_count = static_cast<std::uint32_t>(words.size());
  const std::uint32_t index = nodes.index_of(node);
  for (std::size_t i = 0; i < words.size(); ++i) node_words[index][i] = words[i];
  (graph->first == kNoRange ? graph->first : nodes.at(graph->last).next) = index;
  graph->last = index;
  *handle = to_handle<api::GraphNode>(nodes, node);
  return Status::success;
}

Status to_fill(const MemsetNodeParameters& parameters, Fill& fill) noexcept {
  if (parameters.height != 1) return Status::not_supported;
  const unsigned element_bytes = parameters.element_bytes;
  if ((element_bytes != 1 && element_bytes != 2 && element_bytes != 4) || parameters.width == 0) {
    return Status::invalid_value;
  }
  fill = {parameters.target, parameters.width, static_cast<std::uint8_t>(element_bytes),
          parameters.value};
  return Status::success;
}

EndKind kind_of(std::uint64_t address, int device) noexcept {
  const Range* range = find_range(address, 1);
  const bool is_mapping =
      range != nullptr && range->kind == RangeKind::device && range->context == kNoRange;
  if (!is_mapping) return EndKind::plain;
  const auto access =
      static_cast<api::AccessFlags>(range->access[static_cast<std::size_t>(device)].load());
  return access == api::AccessFlags::read ? EndKind::mapped_for_reading : EndKind::mapped;
}

CopyEnds kinds_of(const Copy& copy, int device) noexcept {
  return {kind_of(copy.source, device), kind_of(copy.target, device)};
}

/// A node's parameters as a BatchMemOpNodeParameters gives them.
Status check_batch(const api::BatchMemOpNodeParameters& parameters) noexcept {
  Context* context = nullptr;
  const Status status = find_owner(parameters.context, context);
  if (status != Status::success) return status;
  if (parameters.operations == nullptr || parameters.flags != 0) return Status::invalid_value;
  return check_words({parameters.operations, parameters.count}, context->device);
}

/// The node of an executable that was made from a node of its graph.
Node* exec_node(GraphExec& exec, api::GraphNode handle, NodeKind kind) noexcept {
  const Node* origin = nodes.find(handle);
  if (origin == nullptr || origin->kind != kind) return nullptr;
  Node* found = nullptr;
  for_nodes(exec.first, [&](Node& node) {
    if (node.origin == nodes.handle_of(origin)) found = &node;
  });
  return found;
}

Status instantiate(const Graph& graph, GraphExec& exec) noexcept {
  Status status = Status::success;
  std::uint32_t last = kNoRange;
  for_nodes(graph.first, [&](const Node& node) {
    if (status != Status::success) return;
    Node* copy = nodes.add();
    if (copy == nullptr) {
      status = Status::out_of_memory;
      return;
    }
    *copy = node;
    copy->next = kNoRange;
    copy->origin = nodes.handle_of(&node);
    copy->owner = execs.handle_of(&exec);
    const std::uint32_t index = nodes.index_of(copy);
    const std::span<const api::MemOp> words = words_of(node);
    for (std::size_t i = 0; i < words.size(); ++i) node_words[index][i] = words[i];
    (last == kNoRange ? exec.first : nodes.at(last).next) = index;
    last = index;
  });
  if (status != Status::success) remove_nodes(exec.first);
  return status;
}

/// What was good when the node was made and is not any more: the device finds out, not the caller.
void add_fault(Submission& submission) noexcept {
  submission.add(OpKind::fault).value = static_cast<std::uint64_t>(Status::illegal_address);
}

Status add_event_node(Submission& submission, const Node& node) noexcept {
  Event* event = driver.events.find(node.event);
  if (event == nullptr) return Status::invalid_value;
  if (node.kind == NodeKind::event_wait) {
    const Record record = last_record(*event);
    if (record.counter == nullptr) return Status::success;
    Op& op = submission.add(OpKind::wait_counter);
    op.counter = const_cast<Counter*>(record.counter);
    op.value = record.value;
    return Status::success;
  }
  Op& op = submission.add(OpKind::mark);
  if (event->shared != nullptr) {
    const Record record = next_record(*event->shared);
    op.counter = const_cast<Counter*>(record.counter);
    op.value = record.value;
    return Status::success;
  }
  EventWords& words = event_words[driver.events.index_of(event)];
  op.counter = &words.done;
  op.value = ++words.issued;
  if ((event->flags & api::kEventDisableTiming) == 0) op.time_ns = &words.time_ns;
  event->counter = &words.done;
  event->value = op.value;
  event->recorded_context = submission.stream().context;
  return Status::success;
}

Status add_to(Submission& submission, const Node& node) noexcept {
  bool is_pageable = false;
  switch (node.kind) {
    case NodeKind::empty:
      (void)submission.add(OpKind::mark);
      return Status::success;
    case NodeKind::copy:
      if (add_copy(submission, node.copy, is_pageable) != Status::success) add_fault(submission);
      return Status::success;
    case NodeKind::fill:
      if (add_fill(submission, node.fill) != Status::success) add_fault(submission);
      return Status::success;
    case NodeKind::words:
      for (const api::MemOp& word : words_of(node)) {
        if (add_word(submission, word, true) != Status::success) add_fault(submission);
      }
      return Status::success;
    case NodeKind::event_record:
    case NodeKind::event_wait:
      return add_event_node(submission, node);
  }
  return Status::success;
}

Status launch(api::GraphExec handle, api::Stream stream) noexcept {
  const auto op_count = [](const GraphExec& exec) {
    std::uint64_t count = 1;  // the wait for the launch before
    for_nodes(exec.first, [&](const Node& node) {
      count += node.kind == NodeKind::words ? node.word_count : 1;
    });
    return count;
  };
  GraphExec* exec = execs.find(handle);
  if (exec == nullptr) return Status::invalid_value;
  Submission submission;
  Status status = submission.begin(stream, op_count(*exec), Stops::stays_behind);
  if (status != Status::success) return status;
  exec = execs.find(handle);  // begin() may have waited without the lock
  if (exec == nullptr) return Status::invalid_value;
  const StreamSlot& slot = submission.slot();
  if (exec->running != nullptr && exec->running != &slot.completed &&
      exec->running->load() < exec->running_end) {
    Op& op = submission.add(OpKind::wait_counter);
    op.counter = const_cast<Counter*>(exec->running);
    op.value = exec->running_end;
  }
  for_nodes(exec->first, [&](const Node& node) {
    if (status == Status::success) status = add_to(submission, node);
  });
  if (status != Status::success) return status;
  exec->running = &slot.completed;
  exec->running_end = submission.end();
  submission.commit();
  return Status::success;
}

}  // namespace

std::uint32_t graph_count() noexcept { return graphs.count(); }
std::uint32_t exec_count() noexcept { return execs.count(); }

Status cuGraphCreate(api::Graph* graph, unsigned flags) {
  return enter(
      FunctionId::cuGraphCreate, Needs::initialized,
      [&] {
        if (graph == nullptr || flags != 0) return Status::invalid_value;
        const Graph* made = graphs.add();
        if (made == nullptr) return Status::out_of_memory;
        *graph = to_handle<api::Graph>(graphs, made);
        return Status::success;
      },
      out(graph), flags);
}

Status cuGraphDestroy(api::Graph graph) {
  return enter(
      FunctionId::cuGraphDestroy, Needs::initialized,
      [&] {
        Graph* found = graphs.find(graph);
        if (found == nullptr) return Status::invalid_value;
        remove_nodes(found->first);
        graphs.remove(found);
        return Status::success;
      },
      graph);
}

Status cuGraphAddEmptyNode(api::GraphNode* node, api::Graph graph,
                           const api::GraphNode* dependencies, std::size_t count) {
  return enter(
      FunctionId::cuGraphAddEmptyNode, Needs::initialized,
      [&] { return add_node(node, graph, dependencies, count, {}, {}); }, out(node), graph,
      Nodes{dependencies, count});
}

Status cuGraphAddMemcpyNode(api::GraphNode* node, api::Graph graph,
                            const api::GraphNode* dependencies, std::size_t count,
                            const api::Memcpy3d* copy, api::Context context) {
  return enter(
      FunctionId::cuGraphAddMemcpyNode, Needs::initialized,
      [&] {
        if (copy == nullptr) return Status::invalid_value;
        Context* owner = nullptr;
        Status status = find_owner(context, owner);
        if (status != Status::success) return status;
        Node wanted;
        wanted.kind = NodeKind::copy;
        wanted.context = context;
        status = to_copy(*copy, wanted.copy);
        if (status == Status::success) status = check_copy(wanted.copy, owner->device);
        if (status != Status::success) return status;
        wanted.ends = kinds_of(wanted.copy, owner->device);
        return add_node(node, graph, dependencies, count, wanted, {});
      },
      out(node), graph, Nodes{dependencies, count}, copy, context);
}

Status cuGraphAddMemsetNode(api::GraphNode* node, api::Graph graph,
                            const api::GraphNode* dependencies, std::size_t count,
                            const MemsetNodeParameters* parameters, api::Context context) {
  return enter(
      FunctionId::cuGraphAddMemsetNode, Needs::initialized,
      [&] {
        if (parameters == nullptr) return Status::invalid_value;
        Context* owner = nullptr;
        Status status = find_owner(context, owner);
        if (status != Status::success) return status;
        Node wanted;
        wanted.kind = NodeKind::fill;
        wanted.context = context;
        status = to_fill(*parameters, wanted.fill);
        if (status == Status::success) status = check_fill(wanted.fill, owner->device);
        if (status != Status::success) return status;
        return add_node(node, graph, dependencies, count, wanted, {});
      },
      out(node), graph, Nodes{dependencies, count}, parameters, context);
}

namespace {
Status add_event(api::GraphNode* node, api::Graph graph, const api::GraphNode* dependencies,
                 std::size_t count, api::Event event, NodeKind kind) noexcept {
  if (driver.events.find(event) == nullptr) return Status::invalid_value;
  Node wanted;
  wanted.kind = kind;
  wanted.event = event;
  return add_node(node, graph, dependencies, count, wanted, {});
}
}  // namespace

Status cuGraphAddEventWaitNode(api::GraphNode* node, api::Graph graph,
                               const api::GraphNode* dependencies, std::size_t count,
                               api::Event event) {
  return enter(
      FunctionId::cuGraphAddEventWaitNode, Needs::initialized,
      [&] { return add_event(node, graph, dependencies, count, event, NodeKind::event_wait); },
      out(node), graph, Nodes{dependencies, count}, event);
}

Status cuGraphAddEventRecordNode(api::GraphNode* node, api::Graph graph,
                                 const api::GraphNode* dependencies, std::size_t count,
                                 api::Event event) {
  return enter(
      FunctionId::cuGraphAddEventRecordNode, Needs::initialized,
      [&] { return add_event(node, graph, dependencies, count, event, NodeKind::event_record); },
      out(node), graph, Nodes{dependencies, count}, event);
}

Status cuGraphAddBatchMemOpNode(api::GraphNode* node, api::Graph graph,
                                const api::GraphNode* dependencies, std::size_t count,
                                const api::BatchMemOpNodeParameters* parameters) {
  return enter(
      FunctionId::cuGraphAddBatchMemOpNode, Needs::initialized,
      [&] {
        if (parameters == nullptr) return Status::invalid_value;
        const Status status = check_batch(*parameters);
        if (status != Status::success) return status;
        Node wanted;
        wanted.kind = NodeKind::words;
        wanted.context = parameters->context;
        return add_node(node, graph, dependencies, count, wanted,
                        {parameters->operations, parameters->count});
      },
      out(node), graph, Nodes{dependencies, count}, parameters);
}

Status cuGraphInstantiateWithFlags(api::GraphExec* exec, api::Graph graph,
                                   unsigned long long flags) {
  return enter(
      FunctionId::cuGraphInstantiateWithFlags, Needs::initialized,
      [&] {
        const Graph* found = graphs.find(graph);
        if (exec == nullptr || found == nullptr || flags != 0) return Status::invalid_value;
        const Context* current = current_context();
        if (current != nullptr && fault_of(index_of(*current)) != Status::success) {
          return fault_of(index_of(*current));
        }
        GraphExec* made = execs.add();
        if (made == nullptr) return Status::out_of_memory;
        const Status status = instantiate(*found, *made);
        if (status != Status::success) {
          execs.remove(made);
          return status;
        }
        *exec = to_handle<api::GraphExec>(execs, made);
        return Status::success;
      },
      out(exec), graph, flags);
}

Status cuGraphExecDestroy(api::GraphExec exec) {
  return enter(
      FunctionId::cuGraphExecDestroy, Needs::initialized,
      [&] {
        GraphExec* found = execs.find(exec);
        if (found == nullptr) return Status::invalid_value;
        remove_nodes(found->first);  // launches have operations of their own
        execs.remove(found);
        return Status::success;
      },
      exec);
}

Status cuGraphExecMemcpyNodeSetParams(api::GraphExec exec, api::GraphNode node,
                                      const api::Memcpy3d* copy, api::Context context) {
  return enter(
      FunctionId::cuGraphExecMemcpyNodeSetParams, Needs::initialized,
      [&] {
        GraphExec* found = execs.find(exec);
        if (found == nullptr || copy == nullptr) return Status::invalid_value;
        Node* target = exec_node(*found, node, NodeKind::copy);
        if (target == nullptr) return Status::invalid_value;
        const Context* owner = context_for(context);
        if (owner == nullptr) return Status::invalid_context;
        Copy wanted;
        Status status = to_copy(*copy, wanted);
        if (status == Status::success) status = check_copy(wanted, owner->device);
        if (status != Status::success) return status;
        // Neither the kind of a side or of its memory nor the context can be changed.
        if (kinds_of(wanted, owner->device) != target->ends ||
            wanted.source_side != target->copy.source_side ||
            wanted.target_side != target->copy.target_side ||
            owner != context_for(target->context)) {
          return Status::invalid_value;
        }
        target->copy = wanted;
        return Status::success;
      },
      exec, node, copy, context);
}

Status cuGraphExecBatchMemOpNodeSetParams(api::GraphExec exec, api::GraphNode node,
                                          const api::BatchMemOpNodeParameters* parameters) {
  return enter(
      FunctionId::cuGraphExecBatchMemOpNodeSetParams, Needs::initialized,
      [&] {
        GraphExec* found = execs.find(exec);
        if (found == nullptr || parameters == nullptr) return Status::invalid_value;
        Node* target = exec_node(*found, node, NodeKind::words);
        if (target == nullptr) return Status::invalid_value;
        const Status status = check_batch(*parameters);
        if (status != Status::success) return status;
        if (parameters->count != target->word_count) return Status::invalid_value;
        const std::uint32_t index = nodes.index_of(target);
        for (unsigned i = 0; i < parameters->count; ++i) {
          node_words[index][i] = parameters->operations[i];
        }
        return Status::success;
      },
      exec, node, parameters);
}

namespace {
/// Later launches record, or wait for, another event.
Status set_event(api::GraphExec exec, api::GraphNode node, api::Event event,
                 NodeKind kind) noexcept {
  GraphExec* found = execs.find(exec);
  if (found == nullptr || driver.events.find(event) == nullptr) return Status::invalid_value;
  Node* target = exec_node(*found, node, kind);
  if (target == nullptr) return Status::invalid_value;
  target->event = event;
  return Status::success;
}
}  // namespace

Status cuGraphExecEventRecordNodeSetEvent(api::GraphExec exec, api::GraphNode node,
                                          api::Event event) {
  return enter(
      FunctionId::cuGraphExecEventRecordNodeSetEvent, Needs::initialized,
      [&] { return set_event(exec, node, event, NodeKind::event_record); }, exec, node, event);
}

Status cuGraphExecEventWaitNodeSetEvent(api::GraphExec exec, api::GraphNode node,
                                        api::Event event) {
  return enter(
      FunctionId::cuGraphExecEventWaitNodeSetEvent, Needs::initialized,
      [&] { return set_event(exec, node, event, NodeKind::event_wait); }, exec, node, event);
}

Status cuGraphUpload(api::GraphExec exec, api::Stream stream) {
  return enter(
      FunctionId::cuGraphUpload, Needs::healthy,
      [&] {
        if (execs.find(exec) == nullptr) return Status::invalid_value;
        // The upload takes its turn in the stream, like a launch of nothing.
        Submission submission;
        const Status status = submission.begin(stream, 1, Stops::stays_behind);
        if (status != Status::success) return status;
        (void)submission.add(OpKind::mark);
        submission.commit();
        return Status::success;
      },
      exec, stream);
}

Status cuGraphLaunch(api::GraphExec exec, api::Stream stream) {
  return enter(
      FunctionId::cuGraphLaunch, Needs::healthy, [&] { return launch(exec, stream); }, exec,
      stream);
}

}  // namespace vramlink::simcuda
