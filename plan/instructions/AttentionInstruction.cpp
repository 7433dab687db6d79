#include "plan/instructions/AttentionInstruction.h"

#include "plan/RelativeBuckets.h"
#include "plan/SequenceOrder.h"
#include "plan/instructions/AttributeChecks.h"

#include <algorithm>
#include <cmath>

namespace mgc::plan {

// --- Operands ------------------------------------------------------------------------------------------------

OperandInfos Attention::operands(const Mesh &) const {
  const auto read = OperandUse::read, written = OperandUse::written;
  const Checked heads = checkedProduct({s, b, g, r}), output = checkedMultiply(heads, valueSize());
  const DType resultType = resultsInF32 ? DType::f32 : type;
  const Checked queryRows = checkedProduct({s, b, g}), keyRows = checkedProduct({t, b, g});
  const auto queries = [&](std::string_view name, int64_t stride, OperandUse use) {
    return rowsOf(use == read ? type : resultType, name, queryRows, checkedMultiply(r, d), stride, use);
  };
  const auto keys = [&](std::string_view name, int64_t size, int64_t stride, OperandUse use) {
    return rowsOf(use == read ? type : resultType, name, keyRows, size, stride, use);
  };
  OperandInfos infos = {queries("q", qStride, read), keys("k", d, kStride, read),
                        keys("v", valueSize(), vStride, read)};
  const auto add = [&](OperandInfos more) { infos.insert(infos.end(), more.begin(), more.end()); };
  if (backward)
    add({elementsOf(type, "o", output, read), elementsOf(DType::f32, "lse", heads, read),
         elementsOf(type, "do", output, read)});
  add({elementsOf(DType::i32, "queryPos", checkedMultiply(s, b), read),
       elementsOf(DType::i32, "keyPos", checkedMultiply(t, b), read)});
  if (documents)
    add({elementsOf(DType::i32, "start", checkedMultiply(s, b), read)});
  if (ends)
    add({elementsOf(DType::i32, "end", checkedMultiply(s, b), read)});
  if (dropout > 0)
    add({elementsOf(DType::i32, "sample", b, read)});
  if (sinks)
    add({elementsOf(type, "sink", checkedMultiply(g, r), read)});
  const Checked biases = checkedProduct({biasBuckets, g, r});
  if (hasBias())
    add({elementsOf(type, "bias", biases, read)});
  if (backward)
    add({queries("dq", dqStride, written), keys("dk", d, dkStride, written),
         keys("dv", valueSize(), dvStride, written)});
  else
    add({elementsOf(resultType, "o", output, written), elementsOf(DType::f32, "lse", heads, written)});
  if (backward && hasBias())
    add({elementsOf(DType::f32, "dbias", biases, written)});
  add({workspaceOf(workspaceBytes)}); // stated even when it has no bytes
  return infos;
}

AttentionStrides::AttentionStrides(const Attention &a)
    : q(a.qStride ? a.qStride : a.queryElements()), k(a.kStride ? a.kStride : a.d),
      v(a.vStride ? a.vStride : a.valueSize()), dq(a.dqStride ? a.dqStride : a.queryElements()),
      dk(a.dkStride ? a.dkStride : a.d), dv(a.dvStride ? a.dvStride : a.valueSize()) {}

// --- Work ----------------------------------------------------------------------------------------------------

// The keys that a query sees, on average over queries spread evenly over all positions: up to its own, and where attention is not
// causal as many behind it.
static double visibleKeys(const Attention &attention) {
  const auto keys = static_cast<double>(attention.t);
  const int sides = attention.causal ? 1 : 2;
  if (attention.window <= 0 || attention.window >= attention.t)
    return sides * keys / 2;
  const auto window = static_cast<double>(attention.window);
  return sides * (window - window * window / (2 * keys));
}

// Pairs of all queries at positions [begin, end) together: continuous, as above.
static double visiblePairs(const Attention &attention, int64_t begin, int64_t end) {
  const double window = attention.window > 0 ? double(attention.window) : double(attention.t);
  const auto below = [&](double position) {
    return position <= window ? position * position / 2 : window * window / 2 + (position - window) * window;
  };
  const auto before = [&](int64_t first, int64_t last) { return below(double(last)) - below(double(first)); };
  return before(begin, end) + (attention.causal ? 0 : before(attention.t - end, attention.t - begin));
}

double shareOfPart(const Attention &attention, int64_t part, int64_t parts) {
  double pairs = 0;
  for (const OrderRun &run : positionsOfPart(part, parts, attention.t, attention.zigzag))
    pairs += visiblePairs(attention, run.position, run.position + run.count);
  return pairs * double(parts) / visiblePairs(attention, 0, attention.t);
}

// A matrix product of [s, d] and [d, t] per head is two operations per pair and element: forward one over d and one
// over w, backward three and two.
double flopsOf(const Attention &attention) {
  const double heads = double(attention.b) * double(attention.g) * double(attention.r);
  const double pairs = 2 * heads * double(attention.s) * visibleKeys(attention);
  const double d = double(attention.d), w = double(attention.valueSize());
  return pairs * (attention.backward ? 3 * d + 2 * w : d + w);
}

Work Attention::work(const Mesh &mesh) const {
  Work work = {.type = type, .flops = flopsOf(*this), .isBackward = backward};
  const int64_t parts = zigzag > 0 ? groupSize(mesh, queryAxes) : 1;
  if (parts > 1)
    work.axes = queryAxes;
  for (int64_t part = 0; parts > 1 && part < parts; ++part)
    work.shares.push_back(shareOfPart(*this, part, parts));
  return work;
}

std::string Attention::sizes() const {
  return fmt::format("s {} t {} b {} g {} r {} d {}{}{}", s, t, b, g, r, d, w > 0 ? fmt::format(" w {}", w) : "",
                     causal ? "" : " bidirectional");
}

// --- Checks --------------------------------------------------------------------------------------------------

static bool verifyStrides(AttributeChecks &checks, const Attention &attention) {
  using Named = AttributeChecks::Named;
  const Checked query = checkedMultiply(attention.r, attention.d);
  bool sound = true;
  for (auto [name, stride] : {Named("qStride", attention.qStride), Named("dqStride", attention.dqStride)})
    sound &= checks.isStride(name, stride, query);
  for (auto [name, stride] : {Named("kStride", attention.kStride), Named("dkStride", attention.dkStride)})
    sound &= checks.isStride(name, stride, Checked(attention.d));
  for (auto [name, stride] : {Named("vStride", attention.vStride), Named("dvStride", attention.dvStride)})
    sound &= checks.isStride(name, stride, Checked(attention.valueSize()));
  return sound;
}

static void verifyOrder(AttributeChecks &checks, const Attention &attention) {
  checks.expect(attention.zigzag >= 0, "zigzag = {} is negative", attention.zigzag);
  if (!checks.need(checks.areAxes(attention.queryAxes)) || !checks.isSound() || attention.zigzag <= 0)
    return;
  const int64_t parts = groupSize(checks.plan().mesh, attention.queryAxes);
  checks.expect(checkedMultiply(attention.s, parts) == Checked(attention.t),
                "s = {} queries on each of {} ranks are not all of t = {} positions", attention.s, parts, attention.t);
  checks.expect(attention.zigzag == checks.plan().zigzag, "zigzag = {}, but the sequences of the plan have zigzag = {}",
                attention.zigzag, checks.plan().zigzag);
  checks.expect(isOrder(attention.t, attention.zigzag), "t = {} positions are not 2 * zigzag = 2 * {} chunks",
                attention.t, attention.zigzag);
}

// Kernels read the slopes of the heads that headOffset and groupStride say.
static void verifySlopes(AttributeChecks &checks, const Attention &attention) {
  if (attention.slopes.empty())
    return;
  for (size_t head = 0; head < attention.slopes.size(); ++head)
    checks.expect(std::isfinite(attention.slopes[head]), "slopes[{}] = {} must be finite", head,
                  attention.slopes[head]);
  if (!checks.expect(attention.headOffset.kind == Scalar::Kind::linear,
                     "slopes with a headOffset of the call or the run; expected a linear one") ||
      !checks.isSound() || attention.groupStride < 0)
    return;
  int64_t least = attention.headOffset.value, most = least;
  for (const Scalar::Term &term : attention.headOffset.terms) {
    const int64_t reach = (groupSize(checks.plan().mesh, term.axes) - 1) * term.scale;
    least += std::min<int64_t>(reach, 0), most += std::max<int64_t>(reach, 0);
  }
  const auto heads = static_cast<int64_t>(attention.slopes.size());
  const Checked inside = checkedAdd(checkedMultiply(attention.g - 1, attention.groupStride), attention.r);
  checks.expect(least >= 0 && most <= heads && inside && *inside <= heads - most,
                "slopes of {} heads; the first heads of the ranks are {} to {}, and each has {} groups of {}, {} "
                "apart; expected slopes of all of them",
                heads, least, most, attention.g, attention.r, attention.groupStride);
}

static void verifyBias(AttributeChecks &checks, const Attention &attention) {
  const int64_t buckets = attention.biasBuckets, maxDistance = attention.biasMaxDistance;
  checks.expect(buckets >= 0, "biasBuckets = {} is negative", buckets);
  checks.expect(buckets != 0 || maxDistance == 0, "biasMaxDistance = {} without biasBuckets; expected 0", maxDistance);
  if (buckets > 0)
    if (const Status found = verifyBuckets(buckets, maxDistance, attention.causal); !found.isOk())
      checks.expect(false, "bias of {}", found.message());
}

void Attention::verify(AttributeChecks &checks) const {
  if (checks.need(checks.arePositive({{"s", s}, {"t", t}, {"b", b}, {"g", g}, {"r", r}, {"d", d}})))
    checks.need(verifyStrides(checks, *this));
  checks.expect(w >= 0, "w = {} is negative", w);
  checks.isFloatType("type", type);
  checks.expect(!resultsInF32 || type == DType::bf16, "resultsInF32 of type {}; expected of bf16 alone", nameOf(type));
  checks.expect(!sinks || !backward, "sinks backward; expected forward alone, whose o and lse count them");
  verifyOrder(checks, *this);
  checks.expect(std::isfinite(scale), "scale = {} must be finite", scale);
  checks.expect(window >= 0, "window = {} is negative", window);
  checks.expect(std::isfinite(softcap) && softcap >= 0, "softcap = {} must be finite, and 0 or more", softcap);
  verifyBias(checks, *this);
  checks.expect(dropout >= 0 && dropout < 1, "dropout = {} is not in [0, 1)", dropout);
  checks.expect(groupStride >= 0, "groupStride = {} is negative", groupStride);
  bool areScalars = true;
  for (const Scalar *scalar : runScalars())
    areScalars &= checks.isScalar(*scalar);
  if (areScalars)
    verifySlopes(checks, *this);
}

} // namespace mgc::plan
