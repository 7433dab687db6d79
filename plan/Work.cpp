#include "plan/Work.h"

#include "plan/SequenceOrder.h"

namespace mgc::plan {

// The keys that a query sees, on average over queries spread evenly over all positions.
static double visibleKeys(const Attention &attention) {
  const auto keys = static_cast<double>(attention.t);
  if (attention.window <= 0 || attention.window >= attention.t)
    return keys / 2;
  const auto window = static_cast<double>(attention.window);
  return window - window * window / (2 * keys);
}

// Pairs of all queries at positions [begin, end) together: continuous, as above.
static double visiblePairs(const Attention &attention, int64_t begin, int64_t end) {
  const double window = attention.window > 0 ? double(attention.window) : double(attention.t);
  const auto below = [&](double position) {
    return position <= window ? position * position / 2 : window * window / 2 + (position - window) * window;
  };
  return below(double(end)) - below(double(begin));
}

double shareOfPart(const Attention &attention, int64_t part, int64_t parts) {
  double pairs = 0;
  for (const OrderRun &run : positionsOfPart(part, parts, attention.t, attention.zigzag))
    pairs += visiblePairs(attention, run.position, run.position + run.count);
  return pairs * double(parts) / visiblePairs(attention, 0, attention.t);
}

// A product of [s, d] and [d, t] per head is two operations per pair and element: two products forward, five
// backward.
double flopsOf(const Attention &attention) {
  const double heads = double(attention.b) * double(attention.g) * double(attention.r);
  const double product = 2 * heads * double(attention.s) * visibleKeys(attention) * double(attention.d);
  return (attention.backward ? 5 : 2) * product;
}

static double workOf(const RowKernel &kernel) { return kernel.flops; }
static double workOf(const Gemm &gemm) { return 2.0 * double(gemm.m) * double(gemm.n) * double(gemm.k); }
static double workOf(const Attention &attention) { return flopsOf(attention); }
static double workOf(const Collective &) { return 0; }
static double workOf(const Move &) { return 0; }

double flopsOf(const InstructionBody &body) {
  return std::visit([](const auto &kind) { return workOf(kind); }, body);
}

double bytesOf(const Mesh &mesh, const InstructionBody &body) {
  if (const auto *kernel = std::get_if<RowKernel>(&body))
    return kernel->bytes;
  double bytes = 0;
  for (const OperandInfo &operand : operandsOf(mesh, body))
    bytes += static_cast<double>(operand.bytes.value_or(0));
  if (const auto *attention = std::get_if<Attention>(&body))
    return bytes - static_cast<double>(attention->workspaceBytes); // stays in the cache
  const auto *gemm = std::get_if<Gemm>(&body);
  if (gemm)
    bytes -= double(gemm->workspaceBytes);
  if (gemm && gemm->accumulate)
    bytes += double(gemm->m) * double(gemm->n) * double(sizeInBytes(gemm->outputType)); // C is read too
  return bytes;
}

} // namespace mgc::plan
