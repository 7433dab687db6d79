// The instruction "attention": softmax attention and its gradient.
#pragma once

#include "plan/instructions/OperandInfo.h"
#include "plan/instructions/Work.h"

#include <string>
#include <vector>

namespace mgc::plan {

class AttributeChecks;

// Attention over q[s,b,g,r,d], k[t,b,g,d], v[t,b,g,w], query positions [s,b] and key positions [t,b] (i32).
// Key t is visible to query s when, causal, pos_t <= pos_s and, with a window > 0, |pos_s - pos_t| < window; with documents,
// start_s <= pos_t too, with ends, pos_t < end_s. A query that sees no key has o = 0, lse = -infinity and no gradient.
// Its score is scale q k; with a softcap > 0, softcap tanh(scale q k / softcap); with slopes, less slope |pos_s - pos_t|; with
// biasBuckets n > 0, plus bias[bucket of pos_t - pos_s, g, r] (RelativeBuckets.h).
// forward operands:  q k v queryPos keyPos [start] [end] [sample] [sink] [bias] -> o, lse[s,b,g,r], workspace
// backward operands: q k v o lse do queryPos keyPos [start] [end] [sample] [bias] -> dq dk dv [dbias], workspace
// start[s,b] (i32) only with documents: where the query's begins. end[s,b] (i32) only with ends: behind its last position.
// sample[b] (i32) only with dropout. dk and dv sum over r.
// sink[g,r] only with sinks: a score of each head whose value is 0. o and lse count it, and so backward need not know it.
// bias[n,g,r] and dbias, its gradient in f32, only with biasBuckets.
// o and do are [s,b,g,r,w]. lse is f32, all others but those of integers of `type`, or results of f32.
struct Attention {
  static constexpr std::string_view kName = "attention";
  static constexpr WorkKind kWork = WorkKind::attention;
  bool backward = false;
  int64_t s = 0, t = 0, b = 0, g = 0, r = 0, d = 0;
  int64_t w = 0; // 0: d
  double scale = 1;
  int64_t window = 0;
  bool causal = true;
  double softcap = 0;              // 0: none
  std::vector<double> slopes = {}; // by global number of the query head (ALiBi); empty: none
  int64_t biasBuckets = 0;         // n; 0: no bias
  int64_t biasMaxDistance = 0;     // from which on all share the last bucket
  double dropout = 0;              // probability; mask keyed by seed, site, instance, sample, head, positions
  int64_t site = 0;                // hash of the dropout's name
  // headOffset: global number of local head 0 (g major, r minor); the global head of (g, r) is
  // headOffset + g * groupStride + r.
  Scalar seed = {}, instance = {}, headOffset = {};
  int64_t groupStride = 0;
  // Where operands are parts of a larger buffer, as in qkv[s,b,g,r+2,d]: elements from one group's part to the
  // next group's, in order of position, b and g. 0: they follow each other, r d apart (q, dq), d (k, dk) or w (v, dv).
  int64_t qStride = 0, kStride = 0, vStride = 0, dqStride = 0, dkStride = 0, dvStride = 0;
  int64_t workspaceBytes = 0;
  DType type = DType::f32;
  // Positions that are known before the data is: keys are a whole sequence in the order of SequenceOrder.h, queries the
  // rank's part of it along these axes. 0: they are data alone.
  int64_t zigzag = 0;
  Axes queryAxes = {};
  bool documents = false; // a query sees only its own
  bool ends = false;      // a query's document, or the padded sample, has an end
  bool sinks = false;     // forward only
  // o, or dq, dk and dv, are f32 whatever the type: to be merged with those of other keys.
  bool resultsInF32 = false;
  bool operator==(const Attention &) const = default;

  int64_t valueSize() const { return w > 0 ? w : d; } // size of a head of v and o
  int64_t queryElements() const { return r * d; }     // elements of one group at one position
  int64_t outputElements() const { return r * valueSize(); }
  bool hasBias() const { return biasBuckets > 0; }
  // Whether the result depends on the heads' global numbers.
  bool knowsHeads() const { return dropout > 0 || !slopes.empty(); }
  OperandInfos operands(const Mesh &) const;
  // Counts only pairs of a query and a key that the query sees, as far as they do not depend on data: causal, with as many queries as
  // keys, half of all; fewer with a window.
  Work work(const Mesh &mesh) const;
  std::string sizes() const;
  std::vector<const Scalar *> runScalars() const { return {&seed, &instance, &headOffset}; }
  const Axes &placement() const { return queryAxes; }
  void verify(AttributeChecks &checks) const;
};

// Elements from one group to the next, with zeros resolved.
struct AttentionStrides {
  int64_t q, k, v, dq, dk, dv;
  explicit AttentionStrides(const Attention &attention);
};

// The mean over the ranks that have parts of the queries.
double flopsOf(const Attention &attention);
// The work for the queries of part number `part` of `parts`, relative to that mean. In: zigzag > 0.
double shareOfPart(const Attention &attention, int64_t part, int64_t parts);

template <typename V> constexpr void fields(V &v, Of<Attention>) {
  required<&Attention::backward, &Attention::s, &Attention::t, &Attention::b, &Attention::g, &Attention::r,
           &Attention::d>(v);
  optional<&Attention::w>(v);
  required<&Attention::scale>(v);
  optional<&Attention::window, &Attention::causal, &Attention::softcap, &Attention::slopes, &Attention::biasBuckets,
           &Attention::biasMaxDistance, &Attention::dropout, &Attention::site, &Attention::seed, &Attention::instance,
           &Attention::headOffset, &Attention::groupStride, &Attention::qStride, &Attention::kStride,
           &Attention::vStride, &Attention::dqStride, &Attention::dkStride, &Attention::dvStride>(v);
  required<&Attention::workspaceBytes>(v);
  optional<&Attention::type, &Attention::zigzag, &Attention::queryAxes, &Attention::documents, &Attention::ends,
           &Attention::sinks, &Attention::resultsInF32>(v);
}

} // namespace mgc::plan
