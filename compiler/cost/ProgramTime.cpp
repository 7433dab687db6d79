// See ProgramTime.h.
#include "compiler/cost/ProgramTime.h"

#include "compiler/cost/InstructionTime.h"
#include "compiler/cost/PlanWalk.h"

#include <algorithm>
#include <deque>

namespace mgc::cost {

using plan::Instruction;
using plan::OperandInfo;

ProgramTime &ProgramTime::operator+=(const ProgramTime &other) {
  products += other.products;
  attention += other.attention;
  rows += other.rows;
  moves += other.moves;
  for (size_t use = 0; use < exposed.size(); ++use) {
    exposed[use] += other.exposed[use];
    hidden[use] += other.hidden[use];
  }
  flops += other.flops;
  return *this;
}

ProgramTime ProgramTime::operator*(double times) const {
  ProgramTime product = *this;
  for (double *value : {&product.products, &product.attention, &product.rows, &product.moves, &product.flops})
    *value *= times;
  for (size_t use = 0; use < exposed.size(); ++use) {
    product.exposed[use] *= times;
    product.hidden[use] *= times;
  }
  return product;
}

namespace {

// --- Bytes that an instruction touches -------------------------------------------------------------------------

struct TouchedBytes {
  int64_t segment = 0, begin = 0, end = 0;
  bool isWritten = false;
};

std::vector<TouchedBytes> bytesTouched(const plan::Mesh &mesh, const Instruction &instruction) {
  const std::vector<OperandInfo> infos = operandsOf(mesh, instruction.body);
  std::vector<TouchedBytes> touched;
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    const plan::Operand &operand = instruction.operands[i];
    touched.push_back({operand.segment, operand.offset, operand.offset + infos[i].span().value_or(0),
                       infos[i].isWritten()});
  }
  return touched;
}

bool collide(const TouchedBytes &a, const TouchedBytes &b) {
  return a.segment == b.segment && (a.isWritten || b.isWritten) &&
         std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

bool collide(const std::vector<TouchedBytes> &some, const std::vector<TouchedBytes> &others) {
  return std::ranges::any_of(some, [&](const TouchedBytes &a) {
    return std::ranges::any_of(others, [&](const TouchedBytes &b) { return collide(a, b); });
  });
}

// --- Collectives beside products -------------------------------------------------------------------------------

size_t useOf(const plan::Mesh &mesh, const plan::InstructionBody &body, const plan::RankGroup &group) {
  if (std::holds_alternative<plan::ExchangeRows>(body))
    return kRowExchanges;
  if (!group.stages.empty())
    return size_t(plan::AxisRole::stage);
  size_t outermost = 0;
  const plan::Axes names = primitiveAxes(mesh, group.axes);
  for (const plan::Axis &axis : mesh.axes)
    if (std::ranges::find(names, axis.name) != names.end())
      outermost = std::max(outermost, size_t(axis.role));
  return outermost;
}

class CollectivesBeside {
public:
  explicit CollectivesBeside(ProgramTime &time) : time_(time) {}

  bool empty() const { return pending_.empty(); }
  void start(double seconds, size_t use, std::vector<TouchedBytes> touched) {
    pending_.push_back({seconds, use, std::move(touched)});
  }
  // A product or attention takes so long.
  void hide(double seconds) {
    while (seconds > 0 && !pending_.empty()) {
      Pending &first = pending_.front();
      const double part = std::min(seconds, first.left);
      time_.hidden[first.use] += part;
      first.left -= part;
      seconds -= part;
      if (first.left <= 0)
        pending_.pop_front();
    }
  }
  // Waits for those in the way of an instruction, and those before them.
  void join(const std::vector<TouchedBytes> &touched) {
    const auto last = std::find_if(pending_.rbegin(), pending_.rend(),
                                   [&](const Pending &one) { return collide(one.touched, touched); });
    for (auto left = pending_.rend() - last; left > 0; --left)
      expose();
  }
  void finish() {
    while (!pending_.empty())
      expose();
  }

private:
  struct Pending {
    double left;
    size_t use;
    std::vector<TouchedBytes> touched;
  };
  void expose() {
    time_.exposed[pending_.front().use] += pending_.front().left;
    pending_.pop_front();
  }

  ProgramTime &time_;
  std::deque<Pending> pending_;
};

// --- Rows of experts ----------------------------------------------------------------------------------------------

// How many of its places an order or exchange of rows fills where each group has equally many rows.
struct EvenLoad {
  int64_t groups, places, rows;
};

std::vector<EvenLoad> evenLoadsOf(const plan::Mesh &mesh, const plan::Program &program) {
  std::vector<EvenLoad> loads;
  for (const Instruction &instruction : program.instructions) {
    if (const auto *exchange = std::get_if<plan::ExchangeRows>(&instruction.body))
      loads.push_back({exchange->groups, exchange->places, exchange->rows});
    else if (const auto *order = std::get_if<plan::GroupRows>(&instruction.body))
      loads.push_back({order->groups, order->places, order->rows / groupSize(mesh, order->axes)});
  }
  return loads;
}

plan::Work workAtEvenLoad(const plan::Mesh &mesh, const plan::InstructionBody &body,
                          const std::vector<EvenLoad> &loads) {
  const auto *product = std::get_if<plan::GroupedGemm>(&body);
  const auto isOfProduct = [&](const EvenLoad &load) {
    return load.groups == product->groups && load.places == product->rows;
  };
  const auto load = product ? std::ranges::find_if(loads, isOfProduct) : loads.end();
  if (load == loads.end())
    return workOf(mesh, body);
  plan::GroupedGemm even = *product;
  even.rows = std::min(load->rows, load->places);
  return workOf(mesh, plan::InstructionBody(even));
}

double &partOf(ProgramTime &time, plan::WorkKind kind) {
  switch (kind) {
  case plan::WorkKind::product:
    return time.products;
  case plan::WorkKind::attention:
    return time.attention;
  case plan::WorkKind::row:
    return time.rows;
  default:
    return time.moves;
  }
}

} // namespace

ProgramTime secondsOf(const Cluster &cluster, const plan::Program &program) {
  const bool isBeside = plan::leavesCoresToProducts(cluster.target);
  ProgramTime time;
  CollectivesBeside beside(time);
  const std::vector<EvenLoad> loads = evenLoadsOf(cluster.mesh, program);
  forEachInstruction(program, [&](const Instruction &instruction) {
    const plan::Work work = workAtEvenLoad(cluster.mesh, instruction.body, loads);
    const double seconds = secondsOf(cluster, instruction.body, work);
    const std::optional<plan::RankGroup> group = groupOf(instruction.body);
    std::vector<TouchedBytes> touched;
    if (isBeside && (group || !beside.empty()))
      touched = bytesTouched(cluster.mesh, instruction);
    if (group && isBeside)
      return beside.start(seconds, useOf(cluster.mesh, instruction.body, *group), std::move(touched));
    if (group) {
      time.exposed[useOf(cluster.mesh, instruction.body, *group)] += seconds;
      return;
    }
    const plan::WorkKind kind = kindOf(instruction.body);
    beside.join(touched);
    partOf(time, kind) += seconds;
    if (hidesCollectives(kind)) {
      beside.hide(seconds);
      time.flops += work.flops;
    }
  });
  beside.finish();
  return time;
}

ProgramTime secondsOf(const plan::Chunk &chunk, const std::vector<ProgramTime> &programs) {
  ProgramTime time;
  forEachCall(chunk, [&](const plan::Call &call) { time += programs[call.program]; });
  return time;
}

} // namespace mgc::cost
