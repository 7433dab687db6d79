// The work of instructions on rows of experts where every expert has equally many, or the fullest rank so many times the mean. A plan
// has places for the rows that may come, as many as a rank has in the worst case; the work is that of the rows that do.
#pragma once

#include "plan/Plan.h"
#include "plan/instructions/Work.h"

#include <map>
#include <vector>

namespace mgc::plan {

// The share of its places that each value with rows fills. Orders of rows state it, and so do exchanges for the side
// that has the experts (GroupRows, ExchangeRows). The counted operands of a matrix product or kernel
// (OperandInfo::isCounted) all fill the same share. Where nothing states it, all places are filled.
class EvenLoad {
public:
  // `imbalance`: rows of the fullest rank over the mean; what has no place does not come.
  EvenLoad(const Mesh &mesh, const Program &program, double imbalance = 1);
  Work workOf(const Instruction &instruction) const; // for an instruction of the program
  double shareOf(int64_t value) const;               // 1: nothing states it

private:
  void state(const Instruction &instruction);
  bool spread(const std::vector<int64_t> &values);
  double shareOf(const std::vector<int64_t> &values) const;
  Work ofKernel(const RowKernel &kernel, double share) const;

  const Mesh &mesh_;
  const double imbalance_;
  std::map<int64_t, double> shares_; // by the number of the value
};

// The work of each instruction of the plan's programs.
std::map<const Instruction *, Work> worksOf(const Plan &plan);

} // namespace mgc::plan
