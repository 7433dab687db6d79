// See InstructionTime.h.
#include "plan/cost/InstructionTime.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mgc::cost {

using plan::Work;
using plan::WorkKind;

namespace {

double peakOf(const Machine &machine, plan::DType type) {
  return type == plan::DType::bf16 ? machine.flops.bf16 : machine.flops.f32;
}

double memorySeconds(const Machine &machine, double bytes) {
  return bytes / (machine.memory.bandwidth * machine.memory.fraction);
}

double ceilDivide(double a, double b) { return std::ceil(a / b); }

// All units make a tile each, wave after wave; the last wave takes as long as a full one.
double tileSeconds(const Machine &machine, const Work &work, const ProductTile &tile) {
  const auto &[m, n, k, count] = work.product;
  const double tiles = double(count) * ceilDivide(double(m), double(tile.m)) * ceilDivide(double(n), double(tile.n));
  const double waves = ceilDivide(tiles, double(machine.products.units));
  const double depth = double(k) + machine.products.startDepth;
  const double flops = 2 * waves * double(machine.products.units) * double(tile.m) * double(tile.n) * depth;
  return flops / (peakOf(machine, work.type) * tile.fraction);
}

double productSeconds(const Machine &machine, const Work &work) {
  double compute = std::numeric_limits<double>::infinity();
  for (const ProductTile &tile : machine.products.tiles)
    compute = std::min(
        {compute, tileSeconds(machine, work, tile), tileSeconds(machine, work, {tile.n, tile.m, tile.fraction})});
  return compute;
}

// The time of the rank that has most.
double attentionSeconds(const Machine &machine, const Work &work) {
  const double rate = work.isBackward ? machine.attention.backward : machine.attention.forward;
  const double share = work.shares.empty() ? 1 : std::ranges::max(work.shares);
  return work.flops * share / (peakOf(machine, work.type) * rate);
}

double computeSeconds(const Machine &machine, WorkKind kind, const Work &work) {
  switch (kind) {
  case WorkKind::product:
    return productSeconds(machine, work);
  case WorkKind::attention:
    return attentionSeconds(machine, work);
  case WorkKind::row:
    return work.flops / (machine.flops.f32 * machine.rows);
  case WorkKind::collective:
  case WorkKind::move:
  case WorkKind::hostCopy:
  case WorkKind::transfer:
    break;
  }
  return 0;
}

} // namespace

double secondsOf(const Cluster &cluster, const plan::InstructionBody &body, const Work &work) {
  const Machine &machine = cluster.machine;
  if (isCommunication(body))
    return machine.launch + communicationSeconds(cluster, body);
  if (const auto *copy = std::get_if<plan::HostCopy>(&body))
    return machine.launch + double(copy->bytes) / (machine.host.bandwidth * machine.host.fraction);
  return machine.launch + std::max(computeSeconds(machine, kindOf(body), work), memorySeconds(machine, work.bytes));
}

double secondsOf(const Cluster &cluster, const plan::InstructionBody &body) {
  return secondsOf(cluster, body, workOf(cluster.mesh, body));
}

} // namespace mgc::cost
