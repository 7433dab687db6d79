// Programs and sizes of a shape that was compiled (ShapeBlocks), as far as its facts (ShapeFacts) depend upon them. Out: facts, and
// all numbers that shapes with the same programs have in common but for their values.
#pragma once

#include "planner/search/ShapeFacts.h"
#include "planner/search/ShapeSizes.h"

#include <memory>
#include <variant>

namespace mgc::planner {

class ShapeOutline {
public:
  ShapeOutline(const ShapeBlocks &shape, const ShapeSizes &sizes, const PricedMachine &machine);

  const ShapeSizes &sizes() const { return sizes_; }
  // Whether the programs are the same but for sizes.
  bool isLike(const ShapeOutline &other) const;
  using Number = std::variant<int64_t *, double *>;
  std::vector<Number> numbers(); // in an order that outlines which are alike have in common

  bool hasPolicies() const; // some block has several

  // The facts of the shape whose numbers these are now; `mesh`: of a layout of it. It must have one policy for each block; if its layouts
  // may have others, facts are bounds of these too, but for the seconds of a whole microbatch.
  ShapeFacts facts(const PricedMachine &machine, const ShapeSizes &sizes, const plan::Mesh &mesh, bool hasOthers) const;
  // ShapeFacts::policies alone, of a shape with several.
  std::vector<std::vector<PolicyFacts>> policies(const PricedMachine &machine, const plan::Mesh &mesh) const;

private:
  struct Parameter {
    CountedParameter counted;     // axes: those inside alone
    bool isOfAllReplicas = false; // and all others
  };
  // A block under one policy.
  struct Variant {
    std::array<int64_t, plan::kBlockTasks.size()> programs = {}; // -1: it does nothing
    std::vector<int64_t> kept;                                   // sizes of what BlockLeast::kept is the sum of
    std::vector<std::vector<memory::LiveBuffer>> frames;         // buffers of each function
    int64_t leastFrame() const;                                  // bytes, of the largest
  };
  struct Block {
    double flops = 0;
    std::vector<Parameter> parameters;
    std::vector<int64_t> entering; // sizes of activations
    std::vector<Variant> variants; // blocks that return the loss have the first alone
  };
  void addPrograms(const ShapeBlocks &shape, const cost::Cluster &cluster, const ModelBlock &variant, Variant &own);
  std::vector<cost::ProgramTime> times(const cost::Cluster &cluster) const;
  static VariantFacts factsOf(const Variant &variant, const std::vector<cost::ProgramTime> &times);
  void add(const ShapeBlocks &shape, const cost::Cluster &cluster, const ModelBlock &block,
           const std::vector<CountedParameter> &parameters);
  cost::ProgramTime timeOf(const cost::Cluster &cluster, size_t program) const;
  ChainCost cost() const;

  ShapeSizes sizes_;
  plan::Mesh mesh_;
  plan::Target target_ = plan::Target::cpu;
  std::vector<std::unique_ptr<plan::Program>> programs_;
  std::vector<std::unique_ptr<plan::Program>> compiled_; // with the sizes of the shape that was compiled
  std::vector<plan::ProgramWorks> works_;                // the works of these
  std::vector<Block> blocks_;
  std::vector<size_t> chain_;
  ChainCost cost_; // likewise, of this shape
};

// Primitive axes of the first ranks of the mesh.
plan::Axes axesInside(const plan::Mesh &mesh, int64_t ranks);

} // namespace mgc::planner
