// Decides how a verified row graph is iterated, before any IR is made.
//   in:  RowGraph
//   out: loops (dims of size 1 dropped, adjacent dims merged where every access allows), which of them are
//        rows and which columns, strides of every access along every loop, what the kernel's range counts,
//        and the cost
//
//   form rows     for row in [begin, end):                   passes over the columns
//   form blocks   for (row, block of the inner loop) in ..:  one elementwise pass; free to split both
//   form columns  for block of columns in [begin, end):      sums over all rows
#pragma once

#include "codegen/rows/graph/RowGraph.h"

namespace mgc::rowgen {

inline constexpr int64_t kWidth = 16; // floats of a vector: one AVX-512 register, two of AVX2

class LoopLayout {
public:
  enum class Form { rows, blocks, columns };
  struct Loop {
    int64_t size = 1;
    bool column = false;
    std::vector<Dim> dims; // merged, outermost first
  };

  explicit LoopLayout(const RowGraph &graph);

  const RowGraph &graph() const { return graph_; }
  Form form() const { return form_; }
  // Row loops first; columns start at firstColumn(). The innermost column loop is the one with vectors.
  const std::vector<Loop> &loops() const { return loops_; }
  size_t firstColumn() const { return firstColumn_; }
  bool hasColumns() const { return firstColumn_ < loops_.size(); }
  int64_t innerSize() const { return hasColumns() ? loops_.back().size : 1; }
  int64_t rows() const; // product of the row loops
  // blocks: one loop of whole vectors; a block is a vector, so that the code is the same for every number of them.
  bool isFlat() const { return isFlat_; }
  // blocks, columns: number of inner columns per block; the last block of a row may be shorter.
  int64_t blockSize() const { return blockSize_; }
  int64_t blocksPerRow() const;
  // columns: number of rows whose sum over a block is in registers.
  int64_t rowChunk() const { return rowChunk_; }
  // Units in one position of the first dim, for kernels that count positions (RowGraph::countRows): the range of n
  // positions is n times this, divided by unitSize() and rounded up.
  int64_t unitsOfPosition() const;
  int64_t unitSize() const;
  int64_t range() const;
  KernelInfo info() const;
  // Equal for graphs that have the same code on a CPU, which the arguments begin and end of the range alone bound: graphs that
  // differ in the size of their outermost dim only.
  std::string codeKey() const;

  // Elements from one iteration of the loop to the next; 0 where the access does not depend on it.
  int64_t stride(RowOperand operand, const std::vector<At> &at, size_t loop) const;
  // The same for the innermost column loop; 1 where no column loop is left.
  int64_t innerStride(RowOperand operand, const std::vector<At> &at) const {
    return hasColumns() ? stride(operand, at, loops_.size() - 1) : 1;
  }
  // Elements from one position of the dim to the next.
  int64_t stride(RowOperand operand, Dim dim) const;
  // Does it go on from row to row?
  bool changesWithRow(RowOperand operand, const std::vector<At> &at) const;
  // The loop of a dim of size > 1 that an index() node names.
  size_t loopOf(Dim dim) const;
  // Does the node change along the column loops? (Not along those of size 1.)
  bool varies(Node node) const { return varies_[node.id]; }
  // Number of passes over the columns that must precede the node's use.
  int level(Node node) const { return levels_[node.id]; }
  bool isUsed(Node node) const { return used_[node.id]; }

  // --- Form rows: passes over the columns; the last one stores what has columns.
  int passes() const;
  std::vector<Node> reductionsOf(int pass) const; // reductions that the pass completes
  bool storesColumns(const RowGraph::Effect &effect) const;
  // The nodes that the pass reduces and, in the last pass, stores.
  std::vector<Node> wantedBy(int pass) const;

private:
  bool isElementwise() const;
  bool isBoundByRange() const;
  size_t countStreams() const;
  void chooseColumnBlocks();
  bool mayMerge(const Loop &outer, const Loop &inner) const;
  void mergeLoops(bool acrossColumns);
  void findNodeFacts();
  void markUsed(Node node);
  double elements(const Loop *begin, const Loop *end) const;
  double accessBytes(RowOperand operand, const std::vector<At> &at) const;
  plan::RowKernel::Operand useOf(RowOperand operand) const;
  int64_t countScalars() const;

  const RowGraph &graph_;
  Form form_ = Form::rows;
  std::vector<Loop> loops_;
  size_t firstColumn_ = 0;
  bool isFlat_ = false;
  int64_t blockSize_ = 1, rowChunk_ = 1;
  std::vector<bool> varies_, used_;
  std::vector<int> levels_;
};

} // namespace mgc::rowgen
