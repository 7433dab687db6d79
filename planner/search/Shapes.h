// The shapes of a search: ShapeBlocks that many layouts have in common, compiled where they are asked for, and bounds of the work of those
// that are not compiled yet.
//
// A shape's work is the time that its devices spend on one sample. It does not grow where a rank has more of a tensor: two products of
// half the rows, or of half the columns, take as long as the whole at the least where that has a tile for each unit of the device, and
// what ranks send each other comes on top. So the work of a shape is a bound of that of each that cuts the same further. Smaller
// products may be split along k, and their halves along more parts: they count as if all units were at work. Experts are never cut further: products of fewer
// rows for more experts take longer.
#pragma once

#include "planner/search/ShapeBlocks.h"

#include <list>

namespace mgc::planner {

// How ranks cut a microbatch and the parameters of a layer.
struct ShapeSizes {
  int64_t tp = 1, cp = 1, ep = 1, etp = 1, mbs = 1;
  bool splitsBackward = false;
  // Axes that exist: several data ranks, several in an instance of the optimizer, several that have the same experts. Gradients of
  // parameters are pending over them.
  bool hasData = false, hasDataInside = false, expertsHaveReplicas = false;
  auto operator<=>(const ShapeSizes &) const = default;
  // Whether the work of this shape is a bound of that of the other.
  bool bounds(const ShapeSizes &other) const;
};

struct ShapeWork {
  double all = 0;       // device seconds of a sample, each layer's policy the fastest
  double unexposed = 0; // likewise, without collectives that nothing hides
  double small = 0;     // part of both that is no bound: ShapeBlocks::smallProductsIn
  double elements = 0;  // parameters of a rank that has all layers
};

// Facts of a shape that was compiled: seconds of a microbatch and bytes of a rank, by block, each of the policy that is best in it.
struct BlockLeast {
  double forward = 0, backward = 0; // seconds: backward or its first half, to the gradient of what enters
  double weight = 0;                // seconds of its second half
  double exposed = 0;               // seconds of collectives of all of them that nothing hides, at the most
  double small = 0;                 // seconds of ShapeBlocks::smallProductsIn, at the most
  int64_t kept = 0;                 // bytes of a microbatch
  // Parameters that are trained, by the data axes along which ranks have the same.
  std::map<plan::Axes, double> elements;
  double allElements() const {
    double all = 0;
    for (const auto &[axes, count] : elements)
      all += count;
    return all;
  }
};
struct ShapeFacts {
  std::vector<BlockLeast> blocks;
  std::vector<size_t> chain;                    // blocks of all instances
  ChainCost cost;                               // without states
  std::map<int64_t, std::vector<int64_t>> cuts; // instances of each chunk, by the number of chunks
};

class Shapes {
public:
  Shapes(const MakeModule &make, const cost::Machine &machine) : make_(make), machine_(machine) {}

  int64_t numberOf(const ShapeSizes &sizes); // a new one, or that of an equal one
  int64_t count() const { return std::ssize(shapes_); }
  int64_t compiled() const { return compiled_; }

  // `options`: of a layout of the shape. Error: that of ShapeBlocks::compile.
  Result<const ShapeBlocks *> get(int64_t shape, const frontend::LayoutOptions &options);
  bool isKnown(int64_t shape) const { return shapes_[size_t(shape)].work.has_value(); }
  // Its own, or a bound by those that are known; nothing: none is.
  std::optional<ShapeWork> workOf(int64_t shape) const;
  // Null: it was not compiled yet.
  const ShapeFacts *factsOf(int64_t shape) const { return shapes_[size_t(shape)].facts.get(); }
  // As many chunks as layers at most.
  const std::vector<int64_t> &cutOf(int64_t shape, int64_t chunks);
  const std::string &refusalOf(int64_t shape) const { return shapes_[size_t(shape)].refusal; }
  void refuse(int64_t shape, const std::string &reason) { shapes_[size_t(shape)].refusal = reason; }

private:
  struct Shape {
    ShapeSizes sizes;
    std::optional<ShapeWork> work;
    std::unique_ptr<ShapeFacts> facts;
    std::string refusal; // empty: there may be layouts of it
  };
  struct Kept {
    int64_t shape = 0;
    std::unique_ptr<mlir::MLIRContext> context;
    std::unique_ptr<ShapeBlocks> blocks;
  };

  const MakeModule &make_;
  const cost::Machine &machine_;
  std::map<ShapeSizes, int64_t> numbers_;
  std::vector<Shape> shapes_;
  std::list<Kept> kept_; // the last that were asked for
  int64_t compiled_ = 0;
};

} // namespace mgc::planner
