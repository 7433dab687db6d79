// See InstructionTime.h.
#include "compiler/cost/InstructionTime.h"

#include "plan/Work.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mgc::cost {

using plan::Attention;
using plan::Collective;
using plan::Gemm;
using plan::Move;
using plan::RowKernel;

namespace {

double peakOf(const Machine &machine, plan::DType type) {
  return type == plan::DType::bf16 ? machine.flops.bf16 : machine.flops.f32;
}

double memorySeconds(const Machine &machine, double bytes) {
  return bytes / (machine.memory.bandwidth * machine.memory.fraction);
}

double ceilDivide(double a, double b) { return std::ceil(a / b); }

// All units make a tile each, wave after wave; the last wave takes as long as a full one.
double tileSeconds(const Machine &machine, const Gemm &gemm, const ProductTile &tile) {
  const double tiles =
      ceilDivide(double(gemm.m), double(tile.m)) * ceilDivide(double(gemm.n), double(tile.n));
  const double waves = ceilDivide(tiles, double(machine.products.units));
  const double depth = double(gemm.k) + machine.products.startDepth;
  const double flops = 2 * waves * double(machine.products.units) * double(tile.m) * double(tile.n) * depth;
  return flops / (peakOf(machine, gemm.inputType) * tile.fraction);
}

// --- One function for each kind, with its bytes ---------------------------------------------------------------

double timeOf(const Cluster &cluster, const Gemm &gemm, double bytes) {
  double compute = std::numeric_limits<double>::infinity();
  for (const ProductTile &tile : cluster.machine.products.tiles)
    compute = std::min({compute, tileSeconds(cluster.machine, gemm, tile),
                        tileSeconds(cluster.machine, gemm, {tile.n, tile.m, tile.fraction})});
  return std::max(compute, memorySeconds(cluster.machine, bytes));
}

// The most that a rank along the axes of the queries has, relative to the mean.
double largestShare(const plan::Mesh &mesh, const Attention &attention) {
  double most = 1;
  const int64_t parts = attention.zigzag > 0 ? groupSize(mesh, attention.queryAxes) : 1;
  for (int64_t part = 0; parts > 1 && part < parts; ++part)
    most = std::max(most, shareOfPart(attention, part, parts));
  return most;
}

double timeOf(const Cluster &cluster, const Attention &attention, double bytes) {
  const AttentionRates &rates = cluster.machine.attention;
  const double rate =
      peakOf(cluster.machine, attention.type) * (attention.backward ? rates.backward : rates.forward);
  return std::max(flopsOf(attention) * largestShare(cluster.mesh, attention) / rate,
                  memorySeconds(cluster.machine, bytes));
}

double timeOf(const Cluster &cluster, const RowKernel &kernel, double bytes) {
  return std::max(kernel.flops / (cluster.machine.flops.f32 * cluster.machine.rows),
                  memorySeconds(cluster.machine, bytes));
}

double timeOf(const Cluster &cluster, const Move &, double bytes) {
  return memorySeconds(cluster.machine, bytes);
}

double timeOf(const Cluster &cluster, const Collective &collective, double) {
  return secondsOf(cluster, collective);
}

} // namespace

double secondsOf(const Cluster &cluster, const plan::InstructionBody &body) {
  const double bytes = bytesOf(cluster.mesh, body);
  return cluster.machine.launch +
         std::visit([&](const auto &kind) { return timeOf(cluster, kind, bytes); }, body);
}

} // namespace mgc::cost
