// See GpuShape.h.
#include "codegen/rows/gpu/GpuShape.h"
#include "runtime/base/Rounding.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <set>

namespace mgc::rowgen {

using Kind = RowGraph::NodeKind;
using EffectKind = RowGraph::EffectKind;

namespace {
constexpr int64_t kVectorBytes = 16;  // the widest access of a thread
constexpr int64_t kSectorBytes = 32;  // the smallest memory access that is worth its cost
constexpr int64_t kThreads = 256;     // threads of a block unless another number is requested
constexpr int64_t kMostThreads = 512; // leaves 128 registers to each
constexpr int64_t kMostThreadsOfBlock = 1024;
// Threads that a multiprocessor runs at once, with 64 registers each, and its share of the second-level cache: 379 KB
// on an A100, 397 KB on an H100 and H200, 893 KB on a B200.
constexpr int64_t kThreadsAtOnce = 1024, kCacheBytes = 370 << 10;
constexpr int64_t kManyBlocks = 100; // keep most of a large GPU busy
// Bytes that a thread requests at once; twice as many for columns, which have fewer threads.
constexpr int64_t kFlightBytes = 64;
constexpr int64_t kKeptFloats = 48;      // floats in registers for a thread's part of a row: the goal
constexpr int64_t kMostKeptFloats = 64;  // the limit, with the largest number of threads
constexpr double kCostlyFlops = 10;      // a value that costs more is kept rather than recomputed
constexpr double kMostCostlyFlops = 512; // limit per thread for expensive values in registers at once
constexpr int64_t kRowsPerClass = 32;    // about so many rows per class of a part with an index
constexpr int64_t kMostClasses = 256;
constexpr int64_t kMostSharedFloats = 8192; // the goal per block: 32 KiB of the 48 that every kernel may have

int64_t powerBelow(int64_t value) { return int64_t(llvm::bit_floor(uint64_t(std::max<int64_t>(value, 1)))); }
int64_t powerAbove(int64_t value) { return int64_t(llvm::bit_ceil(uint64_t(std::max<int64_t>(value, 1)))); }

class Chooser {
public:
  explicit Chooser(const LoopLayout &layout) : layout_(layout), graph_(layout.graph()) {
    const int64_t widest = widestElement();
    shape_.width = layout.hasColumns() ? kVectorBytes / widest : 1;
    while (layout.innerSize() % shape_.width)
      shape_.width /= 2;
    vectorBytes_ = shape_.width * widest;
    if (layout.hasColumns()) {
      for (size_t loop = layout.firstColumn(); loop < layout.loops().size(); ++loop)
        shape_.vectors *= layout.loops()[loop].size;
      shape_.vectors /= shape_.width;
    }
  }

  GpuShape choose() {
    if (layout_.form() == LoopLayout::Form::rows)
      chooseRows();
    else if (layout_.form() == LoopLayout::Form::blocks)
      chooseBlocks();
    else
      chooseColumns();
    return shape_;
  }

private:
  bool isUsedLoad(int id) const { return layout_.isUsed({id}) && graph_[Node{id}].kind == Kind::load; }

  // Whether every row reads another place; any other operand is read once, or from a cache.
  bool isStream(RowOperand operand, const std::vector<At> &at) const {
    return layout_.rows() == 1 || layout_.changesWithRow(operand, at);
  }

  // Loads that bring something else for every row.
  std::vector<Node> streams() const {
    std::vector<Node> found;
    for (int id = 0; id < int(graph_.nodes().size()); ++id)
      if (const RowGraph::NodeInfo &node = graph_[Node{id}];
          layout_.isUsed({id}) && node.kind == Kind::load && layout_.varies({id}) && isStream(node.operand, node.at))
        found.push_back({id});
    return found;
  }

  // Bytes of an element of the streams that a thread could read or write in one piece.
  int64_t widestElement() const {
    int64_t widest = 0;
    auto look = [&](RowOperand operand, const std::vector<At> &at) {
      if (layout_.innerStride(operand, at) == 1)
        widest = std::max(widest, bytesOf(graph_[operand].element));
    };
    for (Node node : streams())
      look(graph_[node].operand, graph_[node].at);
    for (const RowGraph::Effect &effect : graph_.effects())
      if (isStream(effect.operand, effect.at))
        look(effect.operand, effect.at);
    return widest ? widest : 4;
  }

  // Rounded values wait, packed, while expensive ones are computed of them.
  int64_t unrollFor(int64_t flightBytes, int64_t most) const {
    int64_t bytes = 0;
    for (Node stream : streams())
      bytes += bytesOf(graph_[graph_[stream].operand].element) * shape_.width;
    for (int id = 0; id < int(graph_.nodes().size()) && costlyFlops() > 0; ++id)
      if (const RowGraph::NodeInfo &node = graph_[Node{id}];
          layout_.isUsed({id}) && layout_.varies({id}) && node.kind == Kind::map && !node.body)
        bytes += bytesOf(Element::bf16) * shape_.width;
    return std::clamp<int64_t>(flightBytes / std::max<int64_t>(bytes, 4), 1, most);
  }

  int64_t streamedBytesOfRow() const {
    int64_t bytes = 0;
    for (Node stream : streams())
      bytes += bytesOf(graph_[graph_[stream].operand].element) * shape_.width * shape_.vectors;
    return bytes;
  }

  void chooseBlocks() {
    const int64_t total = layout_.rows() * shape_.vectors;
    shape_.threads = shape_.lanes = kThreads;
    shape_.unroll = powerBelow(unrollFor(kFlightBytes, 4));
    while (shape_.unroll > 1 && total < 2 * kManyBlocks * kThreads * shape_.unroll)
      shape_.unroll /= 2;
    shape_.blocks = divideUp(total, kThreads * shape_.unroll);
  }

  // Floats of one vector that are worth keeping: loaded ones, and the expensive values of all passes but the last.
  int64_t keptFloats() const {
    int64_t count = int64_t(streams().size());
    for (int id = 0; id < int(graph_.nodes().size()); ++id)
      count += layout_.isUsed({id}) && layout_.varies({id}) && graph_[Node{id}].kind == Kind::map &&
               graph_[Node{id}].flops >= kCostlyFlops && layout_.level({id}) + 1 < layout_.passes();
    return std::max<int64_t>(count, 1) * shape_.width;
  }

  // The cost of the expensive values of one vector.
  double costlyFlops() const {
    double flops = 0;
    for (int id = 0; id < int(graph_.nodes().size()); ++id)
      if (layout_.isUsed({id}) && layout_.varies({id}) && graph_[Node{id}].flops >= kCostlyFlops)
        flops += graph_[Node{id}].flops;
    return flops * double(shape_.width);
  }

  void chooseRows() {
    const int64_t most = std::min(kMostThreads, powerAbove(shape_.vectors));
    auto perThread = [&] { return divideUp(shape_.vectors, shape_.lanes); };
    shape_.lanes = std::min(kWarp, most);
    if (layout_.passes() > 1) {
      while (shape_.lanes < most && perThread() * keptFloats() > kKeptFloats)
        shape_.lanes *= 2;
      shape_.keeps = perThread() * keptFloats() <= kMostKeptFloats;
    }
    if (shape_.keeps) {
      shape_.unroll = perThread();
    } else {
      // Passes over a long row reduce, and compute, at once: twice as many threads with half the registers each.
      shape_.unroll = unrollFor(layout_.passes() > 1 ? kFlightBytes / 2 : kFlightBytes, 8);
      if (layout_.passes() > 1)
        shape_.lanes = most;
      // The rows that are worked on stay in the cache from pass to pass.
      while (layout_.passes() > 1 && shape_.lanes < kMostThreadsOfBlock &&
             streamedBytesOfRow() * (kThreadsAtOnce / shape_.lanes) > kCacheBytes)
        shape_.lanes *= 2;
      while (shape_.lanes < most && perThread() > 2 * shape_.unroll)
        shape_.lanes *= 2;
      shape_.unroll = std::min(shape_.unroll, perThread());
    }
    shape_.threads = shape_.lanes <= kWarp ? kThreads : shape_.lanes;
    shape_.blocks = divideUp(layout_.rows(), shape_.rowsAtOnce());
  }

  // --- Form columns

  static std::optional<Node> indexOf(const RowGraph::Effect &effect) {
    for (const At &at : effect.at)
      if (const Node *node = std::get_if<Node>(&at.index); node && effect.kind == EffectKind::addAt)
        return *node;
    return std::nullopt;
  }

  // A stored operand may share the memory of one that is read: one thread then does all effects on an element.
  // Otherwise each index has its own part.
  void divideEffects() {
    bool stores = false, sums = false;
    std::set<int> indices;
    for (const RowGraph::Effect &effect : graph_.effects()) {
      stores |= effect.kind == EffectKind::store;
      sums |= effect.kind == EffectKind::sumOverRows;
      if (auto index = indexOf(effect))
        indices.insert(index->id);
    }
    const bool together = stores && !indices.empty(), serial = together && (sums || indices.size() > 1);
    for (size_t number = 0; number < graph_.effects().size(); ++number) {
      std::optional<Node> index = indexOf(graph_.effects()[number]);
      if (together)
        index = Node{*indices.begin()};
      auto same = [&](const GpuPart &part) {
        return part.index.has_value() == index.has_value() && (!index || part.index->id == index->id);
      };
      auto part = std::find_if(shape_.parts.begin(), shape_.parts.end(), same);
      if (part == shape_.parts.end())
        part = shape_.parts.insert(part, {{}, index});
      part->effects.push_back(number);
      part->classes = serial ? 1 : std::min(powerAbove(divideUp(layout_.rows(), kRowsPerClass)), kMostClasses);
    }
  }

  void chooseColumns() {
    divideEffects();
    shape_.threads = kMostThreads;
    shape_.lanes = kWarp;
    const int64_t least = kSectorBytes / vectorBytes_;
    while (shape_.lanes > least && divideUp(shape_.vectors, shape_.lanes) < kManyBlocks)
      shape_.lanes /= 2;
    const int64_t sums = std::count_if(graph_.effects().begin(), graph_.effects().end(),
                                       [](const auto &effect) { return effect.kind == EffectKind::sumOverRows; });
    while (shape_.lanes > least && sums * shape_.threads / kWarp * shape_.lanes * shape_.width > kMostSharedFloats)
      shape_.lanes /= 2;
    shape_.unroll = powerBelow(unrollFor(2 * kFlightBytes, 8));
    while (shape_.unroll > 1 && (shape_.rowsAtOnce() * shape_.unroll / 2 >= layout_.rows() ||
                                 costlyFlops() * double(shape_.unroll) > kMostCostlyFlops))
      shape_.unroll /= 2;
    shape_.blocks = 0;
    for (GpuPart &part : shape_.parts) {
      const int64_t warps = divideUp(shape_.vectors, kWarp) * part.classes;
      part.blocks = part.index ? divideUp(warps, shape_.threads / kWarp) : divideUp(shape_.vectors, shape_.lanes);
      part.firstBlock = shape_.blocks;
      shape_.blocks += part.blocks;
    }
  }

  const LoopLayout &layout_;
  const RowGraph &graph_;
  GpuShape shape_;
  int64_t vectorBytes_ = 4;
};
} // namespace

GpuShape GpuShape::of(const LoopLayout &layout) { return Chooser(layout).choose(); }

} // namespace mgc::rowgen
