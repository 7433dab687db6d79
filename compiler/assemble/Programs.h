// A function of phase fuse and its frame -> plan::Program. Row kernels are collected as graphs, to be compiled together:
// until then they have no symbol.
#pragma once

#include "codegen/rows/Compile.h"
#include "compiler/assemble/Frame.h"
#include "compiler/program/Blocks.h"
#include "plan/PlanPrograms.h"

namespace mgc {

// The argument, the result or the frame that a program's segment is in the function it comes from.
struct SegmentSource {
  enum class Kind { argument, result, frame } kind;
  size_t index = 0; // argument, result
};

struct AssembledProgram {
  plan::Program program;
  std::vector<SegmentSource> segments;
};

// Row kernels of all programs. `uses` says which instruction runs which graph, so that symbols can be filled in.
struct KernelGraphs {
  struct Use {
    size_t program, instruction, graph;
  };
  std::vector<rowgen::NamedGraph> graphs;
  std::vector<Use> uses;
};

// number: the program's index, for KernelGraphs. block: null for the functions of the step's end.
Result<AssembledProgram> assembleProgram(mlir::func::FuncOp function, const FunctionFrame &frame,
                                         const BlockFunction *block, size_t number, KernelGraphs &kernels);

} // namespace mgc
