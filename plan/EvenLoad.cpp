// See EvenLoad.h.
#include "plan/EvenLoad.h"

#include "plan/mesh/Mesh.h"

#include <algorithm>

namespace mgc::plan {

// The numbers of the values that have a row where another has it, and of their counts. None of an exchange, which has rows of two
// orders.
static std::vector<int64_t> valuesWithRows(const Mesh &mesh, const Instruction &instruction) {
  if (std::holds_alternative<ExchangeRows>(instruction.body))
    return {};
  const OperandInfos infos = operandsOf(mesh, instruction.body);
  std::vector<int64_t> values;
  for (size_t i = 0; i < infos.size(); ++i)
    if (infos[i].isCounted || infos[i].isElementwise || infos[i].isWholeValue)
      if (const int64_t value = instruction.operands[i].value; value >= 0)
        values.push_back(value);
  return values;
}

EvenLoad::EvenLoad(const Mesh &mesh, const Program &program, double imbalance) : mesh_(mesh), imbalance_(imbalance) {
  for (const Instruction &instruction : program.instructions)
    state(instruction);
  if (shares_.empty())
    return;
  std::vector<std::vector<int64_t>> values;
  for (const Instruction &instruction : program.instructions)
    values.push_back(valuesWithRows(mesh, instruction));
  while (std::ranges::count_if(values, [&](const std::vector<int64_t> &of) { return spread(of); }) > 0) {
  }
}

void EvenLoad::state(const Instruction &instruction) {
  const auto know = [&](size_t operand, double rows, int64_t places) {
    if (const int64_t value = instruction.operands[operand].value; value >= 0)
      shares_[value] = std::min(1.0, imbalance_ * rows / double(places));
  };
  if (const auto *exchange = std::get_if<ExchangeRows>(&instruction.body))
    know(exchange->back ? 1 : 2, double(exchange->rows), exchange->places);
  else if (const auto *order = std::get_if<GroupRows>(&instruction.body))
    know(1, double(order->rows) / double(groupSize(mesh_, order->axes)), order->places);
}

// Gives all of the values the known share of some of them. False: the shares of all or of none are known.
bool EvenLoad::spread(const std::vector<int64_t> &values) {
  const auto isKnown = [&](int64_t value) { return shares_.contains(value); };
  if (std::ranges::none_of(values, isKnown) || std::ranges::all_of(values, isKnown))
    return false;
  const double share = shareOf(values);
  for (const int64_t value : values)
    shares_.try_emplace(value, share);
  return true;
}

double EvenLoad::shareOf(int64_t value) const {
  const auto it = shares_.find(value);
  return it == shares_.end() ? 1 : it->second;
}

double EvenLoad::shareOf(const std::vector<int64_t> &values) const {
  for (const int64_t value : values)
    if (const auto it = shares_.find(value); it != shares_.end())
      return it->second;
  return 1;
}

// A kernel that writes counted rows stops at the last one. One that only reads some, as a sum over the choices of each token does,
// has all of its range, and reads the rows that there are.
Work EvenLoad::ofKernel(const RowKernel &kernel, double share) const {
  Work work = kernel.work(mesh_);
  const auto stops = [](const RowKernel::Operand &use) { return use.counted && use.use != OperandUse::read; };
  if (std::ranges::any_of(kernel.uses, stops)) {
    work.flops *= share, work.bytes *= share;
    return work;
  }
  for (const RowKernel::Operand &use : kernel.uses)
    work.bytes -= use.counted ? (1 - share) * double(use.bytes) : 0;
  return work;
}

Work EvenLoad::workOf(const Instruction &instruction) const {
  const double share = shares_.empty() ? 1 : shareOf(valuesWithRows(mesh_, instruction));
  if (const auto *kernel = std::get_if<RowKernel>(&instruction.body))
    return ofKernel(*kernel, share);
  const auto *product = std::get_if<GroupedGemm>(&instruction.body);
  if (!product)
    return plan::workOf(mesh_, instruction.body);
  GroupedGemm even = *product;
  even.rows = std::llround(share * double(product->rows));
  return plan::workOf(mesh_, InstructionBody(even));
}

std::map<const Instruction *, Work> worksOf(const Plan &plan) {
  std::map<const Instruction *, Work> works;
  for (const Program &program : plan.programs) {
    const EvenLoad load(plan.mesh, program);
    for (const Instruction &instruction : program.instructions)
      works.emplace(&instruction, load.workOf(instruction));
  }
  return works;
}

} // namespace mgc::plan
