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

constexpr int64_t kMostParts = 32; // into which k is split

double ceilDivide(double a, double b) { return std::ceil(a / b); }

// All units make a tile each, wave after wave; the last wave takes as long as a full one. Where there are fewer tiles than units, k
// may be split into parts, whose sums of f32 go through memory once more.
double tileSeconds(const Machine &machine, const Work &work, const ProductTile &tile) {
  const auto &[m, n, k, count] = work.product;
  const auto units = double(machine.products.units);
  const double tiles = double(count) * ceilDivide(double(m), double(tile.m)) * ceilDivide(double(n), double(tile.n));
  double least = std::numeric_limits<double>::infinity();
  for (int64_t parts = 1; parts == 1 || (parts <= kMostParts && parts <= k && tiles * double(parts) <= units);
       ++parts) {
    const double depth = ceilDivide(double(k), double(parts)) + machine.products.startDepth;
    const double waves = ceilDivide(tiles * double(parts), units);
    const double flops = 2 * waves * units * double(tile.m) * double(tile.n) * depth;
    const double sums = parts == 1 ? 0 : 8 * double(parts) * double(count) * double(m) * double(n);
    least = std::min(least, flops / (peakOf(machine, work.type) * tile.fraction) + memorySeconds(machine, sums));
  }
  return least;
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

// Attention as products of all pairs of positions, with the scores in memory between them.
double unfusedSeconds(const Cluster &cluster, const plan::Attention &attention) {
  const Machine &machine = cluster.machine;
  const plan::ProductSizes overHead{attention.s, attention.t, attention.d, attention.b * attention.g * attention.r};
  const plan::ProductSizes overValue{attention.s, attention.t, attention.valueSize(), overHead.count};
  const double scores =
      double(plan::sizeInBytes(attention.type)) * double(overHead.count) * double(attention.s) * double(attention.t);
  const double rows = double(plan::sizeInBytes(attention.type)) * double(overHead.count);
  // [s, d] by [d, t], or a product of the same sizes with the scores as a factor.
  const auto secondsOf = [&](const plan::ProductSizes &sizes, bool makesScores, bool isOfKeys) {
    const auto [s, t, d, count] = sizes;
    const plan::ProductSizes ordered =
        makesScores ? sizes : plan::ProductSizes{isOfKeys ? t : s, d, isOfKeys ? s : t, count};
    const double seconds = productSeconds(machine, {.type = attention.type, .product = ordered});
    return machine.launch + std::max(seconds, memorySeconds(machine, scores + rows * double(s + t) * double(d)));
  };
  double seconds = 0;
  if (!attention.backward)
    seconds = secondsOf(overHead, true, false) + secondsOf(overValue, false, false);
  else
    seconds = secondsOf(overValue, true, false) + secondsOf(overValue, false, true) +
              secondsOf(overHead, false, false) + secondsOf(overHead, false, true);
  const double passes =
      attention.backward ? cluster.stack.attention.backwardPasses : cluster.stack.attention.forwardPasses;
  return seconds + memorySeconds(machine, passes * scores);
}

double computeSeconds(const Cluster &cluster, WorkKind kind, const Work &work, bool isGrouped) {
  const Machine &machine = cluster.machine;
  switch (kind) {
  case WorkKind::product:
    return productSeconds(machine, work) * (isGrouped ? cluster.stack.products.grouped : 1);
  case WorkKind::attention:
    return attentionSeconds(machine, work) * cluster.stack.attention.times;
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

// An exchange takes as long as the rank needs to which, or from which, most rows go; rows without a place do not travel.
double loadOf(const Cluster &cluster, const plan::InstructionBody &body) {
  const auto *exchange = std::get_if<plan::ExchangeRows>(&body);
  return exchange ? std::clamp(double(exchange->places) / double(exchange->rows), 1.0, cluster.imbalance) : 1;
}

} // namespace

double secondsOf(const Cluster &cluster, const plan::InstructionBody &body, const Work &work) {
  const Machine &machine = cluster.machine;
  if (isCommunication(body))
    return machine.launch + communicationSeconds(cluster, body) * loadOf(cluster, body);
  if (const auto *attention = std::get_if<plan::Attention>(&body); attention && !cluster.stack.attention.isFused)
    return unfusedSeconds(cluster, *attention);
  if (const auto *copy = std::get_if<plan::HostCopy>(&body))
    return machine.launch + double(copy->bytes) / (machine.host.bandwidth * machine.host.fraction);
  return machine.launch +
         std::max(computeSeconds(cluster, kindOf(body), work, std::holds_alternative<plan::GroupedGemm>(body)),
                  memorySeconds(machine, work.bytes));
}

double secondsOf(const Cluster &cluster, const plan::InstructionBody &body) {
  return secondsOf(cluster, body, workOf(cluster.mesh, body));
}

} // namespace mgc::cost
