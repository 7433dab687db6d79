#include "plan/instructions/CollectiveInstruction.h"

#include "plan/instructions/AttributeChecks.h"

namespace mgc::plan {

using Kind = Collective::Kind;

OperandInfos Collective::operands(const Mesh &mesh) const {
  const Checked part = checkedProduct({outer, middle, chunk});
  const Checked whole = checkedMultiply(part, groupSize(mesh, group()));
  const bool readsWhole = kind == Kind::reduceScatter || kind == Kind::allToAll,
             writesWhole = kind == Kind::allGather || kind == Kind::allToAll;
  OperandInfos infos = {elementsOf(type, "source", readsWhole ? whole : part, OperandUse::read),
                        elementsOf(type, "destination", writesWhole ? whole : part, OperandUse::written)};
  infos[0].isElementwise = infos[1].isElementwise = kind == Kind::allReduce;
  addWorkspace(infos, workspaceBytes);
  return infos;
}

std::string Collective::sizes() const {
  const std::string elements = fmt::format("{} of {}", outer * middle * chunk, nameOf(type));
  return stages.empty() ? fmt::format("{} over {}", elements, fmt::join(axes, " "))
                        : fmt::format("{} over stages {}", elements, fmt::join(stages, " "));
}

Communication Collective::communication(int64_t ranks) const {
  const double block = double(outer) * double(middle) * double(chunk) * double(sizeInBytes(type));
  const auto others = double(ranks - 1);
  switch (kind) {
  case Kind::allReduce:
    return {nameOf(kind), CommunicationPattern::ringOrTree, 2 * block * others / double(ranks)};
  case Kind::allGather:
  case Kind::reduceScatter:
    return {nameOf(kind), CommunicationPattern::ring, block * others}; // `block` is what one rank has of the whole
  case Kind::allToAll:
    return {nameOf(kind), CommunicationPattern::direct, block * others};
  case Kind::permute:
    return {nameOf(kind), CommunicationPattern::neighbour, block};
  }
  return {};
}

std::string Collective::agreement() const {
  return fmt::format("{} {} of {} x {} x {} {}{} over [{}]", nameOf(kind), nameOf(reduce), outer, middle, chunk,
                     nameOf(type), splitsInner ? ", inner split," : "", fmt::join(axes, ", "));
}

static void verifyWorkspace(AttributeChecks &checks, const Collective &collective) {
  const Checked rows = checkedMultiply(collective.outer, collective.middle);
  const bool packs = collective.kind == Kind::allToAll && packsRows(checks.plan().target) && (!rows || *rows > 1);
  const Checked row = checkedMultiply(collective.chunk, groupSize(checks.plan().mesh, collective.group())),
                needed = packs ? checkedProduct({rows, row, sizeInBytes(collective.type)}) : 0;
  checks.expect(needed && collective.workspaceBytes == *needed, "workspaceBytes = {}, expected {}{}",
                collective.workspaceBytes, needed ? fmt::to_string(*needed) : "more than 2^63",
                packs ? ": the rows of all_to_all" : ": nothing is packed");
}

void Collective::verify(AttributeChecks &checks) const {
  const bool hasRows = kind != Kind::allReduce && kind != Kind::permute, toAll = kind == Kind::allToAll;
  checks.arePositive({{"outer", outer}, {"chunk", chunk}, {"middle", middle}});
  checks.expect(hasRows || outer == 1, "outer = {}, but {} has outer = 1", outer, nameOf(kind));
  checks.expect(toAll || middle == 1, "middle = {}, but only all_to_all has a middle", middle);
  checks.expect(toAll || !splitsInner, "splitsInner, but only all_to_all splits");
  checks.expect(stages.empty() || axes.empty(), "a collective goes along axes or over stages, not both");
  if (checks.need(checks.areAxes(axes)) && checks.need(checks.areStages(stages)))
    verifyWorkspace(checks, *this);
}

} // namespace mgc::plan
