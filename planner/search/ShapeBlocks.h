// The blocks of a model as a rank computes them under some axes, compiled up to their programs, placed in their frames and priced. In:
// options of a layout. Out: what one microbatch of each block takes. Stages, data ranks and what they share out are of no account, so
// that all layouts which have the same axes otherwise, the same microbatch and the same halves of backward ask one ShapeBlocks.
#pragma once

#include "compiler/assemble/Programs.h"
#include "compiler/stage/ChainCost.h"
#include "plan/cost/ProgramTime.h"
#include "planner/Trials.h"
#include "planner/search/PricedMachine.h"

namespace mgc::planner {

// Seconds of products of the program's run, without those that its own collectives are hidden by.
double hidingOf(const cost::ProgramTime &time);

class ShapeBlocks {
public:
  // The machine must outlive it. Error: the options make no layout, or a phase refuses its blocks.
  static Result<std::unique_ptr<ShapeBlocks>> compile(mlir::MLIRContext &context,
                                                      const frontend::LayoutOptions &options, const MakeModule &make,
                                                      const PricedMachine &machine);

  mlir::ModuleOp module() const { return *module_; }
  const Blocks &blocks() const { return *blocks_; }
  mlir::Region &chainRegion() const;
  std::vector<Instance> chain() const { return blocks_->instancesOf(chainRegion()); }
  const BlockWorks &works() const { return works_; }
  const Frames &frames() const { return frames_; }                      // sizes alone
  const FunctionFrame &frameOf(const BlockFunction &function) const;    // without places
  bool hasProgram(const BlockFunction &function) const;                 // it does something
  const cost::ProgramTime &timeOf(const BlockFunction &function) const; // no time where it does nothing
  double evenSecondsOf(const BlockFunction &function) const;            // where experts are loaded evenly
  // hidingOf the function: all, and before the first instruction that reads the forward's argument.
  double hidingIn(const BlockFunction &function) const;
  double hidingBefore(const BlockFunction &function, int64_t argument) const;
  const plan::Program *programOf(const BlockFunction &function) const; // null where it does nothing
  plan::Target target() const { return target_; }

private:
  explicit ShapeBlocks(const PricedMachine &machine) : machine_(machine) {}
  Status read();
  void addReads(const BlockFunction &function, const AssembledProgram &program);
  double hidingOfFirst(mlir::Operation *function, int64_t instructions) const;

  const PricedMachine machine_;

  mlir::OwningOpRef<mlir::ModuleOp> module_;
  std::optional<Blocks> blocks_;
  BlockWorks works_;
  Frames frames_;
  llvm::DenseMap<mlir::Operation *, cost::ProgramTime> times_; // by function
  llvm::DenseMap<mlir::Operation *, double> evenSeconds_;      // likewise, of an even load; empty: times_ are of one
  llvm::DenseMap<mlir::Operation *, plan::Program> programs_;
  // By function and parameter, an argument of the forward: the first instruction that reads it.
  std::map<std::pair<mlir::Operation *, int64_t>, int64_t> reads_;
  mutable std::map<std::pair<mlir::Operation *, int64_t>, double>
      hiding_; // hidingOf so many instructions, where it was asked for
  plan::Target target_ = plan::Target::cpu;
};

} // namespace mgc::planner
