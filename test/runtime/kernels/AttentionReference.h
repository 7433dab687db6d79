// Attention as its definition says, in double, with whole score rows: what the blocked kernels are tested against.
#pragma once

#include "plan/SequenceOrder.h"
#include "runtime/kernels/AttentionPanels.h"
#include "runtime/kernels/CpuAttention.h"
#include "test/runtime/kernels/KernelData.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace mgc::test {

// Operands and results of one problem, with the calls to run it.
struct AttentionProblem {
  plan::Attention a;
  int64_t part = 0; // the queries' part of t / s; after order()
  const AttentionKernels *kernels = attentionKernels().front();
  std::vector<float> q, k, v, sinks, bias, outputGradient, o, lse, dq, dk, dv, dbias;
  std::vector<float> joined, joinedGradients; // after join()
  std::vector<float> workspace;               // keeps the contents that an earlier pass left
  std::vector<int32_t> queryPositions, keyPositions, starts, ends, samples;

  explicit AttentionProblem(const plan::Attention &attention) : a(attention) {
    if (a.scale == 1)
      a.scale = 1 / std::sqrt(static_cast<double>(a.d));
    const int64_t queries = a.s * a.b * a.g * a.r, keys = a.t * a.b * a.g;
    q = randomFloats(queries * a.d, 1), k = randomFloats(keys * a.d, 2), v = randomFloats(keys * a.valueSize(), 3);
    outputGradient = randomFloats(queries * a.valueSize(), 4), sinks = randomFloats(a.g * a.r, 5);
    queryPositions.resize(a.s * a.b), keyPositions.resize(a.t * a.b);
    samples.resize(a.b);
    for (int64_t b = 0; b < a.b; ++b) { // queries are the last s of t positions
      samples[b] = static_cast<int32_t>(100 + b);
      for (int64_t s = 0; s < a.s; ++s)
        queryPositions[s * a.b + b] = static_cast<int32_t>(s + std::max<int64_t>(a.t - a.s, 0));
      for (int64_t t = 0; t < a.t; ++t)
        keyPositions[t * a.b + b] = static_cast<int32_t>(t);
    }
  }

  // The values of the run, the call and the rank.
  void resolve(int64_t seed, int64_t instance, int64_t headOffset) {
    a.seed.value = seed, a.instance.value = instance, a.headOffset.value = headOffset;
  }

  // From now on positions lie in the order of `zigzag` ranks, and the queries are this part of it.
  void order(int64_t zigzag, int64_t ofParts = 0) {
    a.zigzag = zigzag, part = ofParts;
    for (int64_t i = 0; i < a.s * a.b; ++i)
      queryPositions[i] = static_cast<int32_t>(plan::positionAt(part * a.s + i / a.b, a.t, zigzag));
    for (int64_t i = 0; i < a.t * a.b; ++i)
      keyPositions[i] = static_cast<int32_t>(plan::positionAt(i / a.b, a.t, zigzag));
  }

  // From now on positions are permuted, some queries being behind the keys.
  void permute() {
    for (size_t i = 0; i < keyPositions.size(); ++i)
      keyPositions[i] = static_cast<int32_t>(int64_t(i) * 37 % a.t);
    for (size_t i = 0; i < queryPositions.size(); ++i)
      queryPositions[i] = static_cast<int32_t>(int64_t(i) * 53 % (a.t + 20));
  }

  // Four positions from the least to the greatest.
  void goToExtremes() {
    constexpr int32_t least = std::numeric_limits<int32_t>::min(), greatest = std::numeric_limits<int32_t>::max();
    queryPositions = {least, 0, greatest, 5};
    keyPositions = {greatest, least, 0, 5};
  }

  // From now on a document begins every `length` positions, of each sequence one position later.
  void pack(int64_t length) {
    a.documents = true;
    starts.resize(queryPositions.size());
    for (size_t i = 0; i < starts.size(); ++i) {
      const int64_t shift = static_cast<int64_t>(i) % a.b, position = queryPositions[i];
      starts[i] = static_cast<int32_t>(std::max<int64_t>(position - (position + shift) % length, 0));
    }
  }

  // From now on the document of a query ends there too; alone it is padding behind `length` positions, of each sequence one more.
  void end(int64_t length) {
    a.ends = true;
    ends.resize(queryPositions.size());
    for (size_t i = 0; i < ends.size(); ++i) {
      const int64_t b = static_cast<int64_t>(i) % a.b;
      ends[i] = static_cast<int32_t>(!a.documents     ? length + b
                                     : starts[i] == 0 ? length - b % length
                                                      : starts[i] + length);
    }
  }

  // From now on heads have slopes; those of the problem are some in the middle.
  void slope() {
    a.groupStride = a.groupStride == 0 ? a.r : a.groupStride;
    a.slopes.clear();
    for (int64_t head = 0; head < a.headOffset.value + a.g * a.groupStride + 2; ++head)
      a.slopes.push_back(std::exp2(-0.7 * static_cast<double>(head + 1)));
  }

  // From now on scores have biases.
  void addBias(int64_t buckets, int64_t maxDistance) {
    a.biasBuckets = buckets, a.biasMaxDistance = maxDistance;
    bias = randomFloats(buckets * a.g * a.r, 6);
  }

  // From now on q, k and v are parts of one buffer [max(s, t), b, g, (r+1) d + w + padding], and so are their gradients.
  void join(int64_t padding = 0) {
    const int64_t stride = (a.r + 1) * a.d + a.valueSize() + padding;
    a.qStride = a.kStride = a.vStride = a.dqStride = a.dkStride = a.dvStride = stride;
    joined.resize(std::max(a.s, a.t) * a.b * a.g * stride);
    joinedGradients.resize(joined.size());
    eachRow(&AttentionProblem::q, &AttentionProblem::k, &AttentionProblem::v,
            [&](float *row, int64_t at, int64_t size) { std::copy_n(row, size, joined.data() + at); });
  }

  void run(int threads) {
    const float unset = std::numeric_limits<float>::quiet_NaN(); // everything is to be written
    o.assign(outputGradient.size(), unset), lse.assign(a.s * a.b * a.g * a.r, unset);
    dq.assign(q.size(), unset), dk.assign(k.size(), unset), dv.assign(v.size(), unset);
    dbias.assign(bias.size(), unset);
    std::fill(joinedGradients.begin(), joinedGradients.end(), unset);
    for (bool backward : {false, true})
      pass(backward, threads);
    if (!joined.empty())
      takeJoinedGradients();
  }

  void takeJoinedGradients() {
    eachRow(&AttentionProblem::dq, &AttentionProblem::dk, &AttentionProblem::dv,
            [&](float *row, int64_t at, int64_t size) { std::copy_n(joinedGradients.data() + at, size, row); });
  }

  void pass(bool backward, int threads) {
    a.backward = backward;
    const size_t bytes = attentionWorkspaceBytes(a);
    if (workspace.size() * sizeof(float) < bytes + plan::kAlignment)
      workspace.assign((bytes + plan::kAlignment) / sizeof(float), std::numeric_limits<float>::quiet_NaN());
    char *aligned = reinterpret_cast<char *>(workspace.data());
    aligned += -reinterpret_cast<uintptr_t>(aligned) % plan::kAlignment;
    AttentionOperands operands = operandsWith(aligned);
    if (!joined.empty()) {
      const int64_t key = a.r * a.d, value = key + a.d;
      operands.q = joined.data(), operands.dq = joinedGradients.data();
      operands.k = joined.data() + key, operands.dk = joinedGradients.data() + key;
      operands.v = joined.data() + value, operands.dv = joinedGradients.data() + value;
    }
    attention(a, operands, threads, *kernels);
  }

  AttentionOperands operandsWith(void *workspace) {
    return {q.data(),
            k.data(),
            v.data(),
            queryPositions.data(),
            keyPositions.data(),
            starts.data(),
            ends.data(),
            samples.data(),
            sinks.data(),
            bias.data(),
            o.data(),
            lse.data(),
            outputGradient.data(),
            dq.data(),
            dk.data(),
            dv.data(),
            dbias.data(),
            workspace};
  }

  // Results of both passes, but for dbias.
  std::array<std::pair<const char *, const std::vector<float> *>, 5> results() const {
    return {{{"o", &o}, {"lse", &lse}, {"dq", &dq}, {"dk", &dk}, {"dv", &dv}}};
  }

private:
  // body(row, where it lies in the joined buffer, its elements) for all three.
  using Tensor = std::vector<float> AttentionProblem::*;
  template <typename Body> void eachRow(Tensor query, Tensor key, Tensor value, const Body &body) {
    for (int64_t group = 0; group < a.s * a.b * a.g; ++group)
      for (int64_t r = 0; r < a.r; ++r)
        body((this->*query).data() + (group * a.r + r) * a.d, group * a.qStride + r * a.d, a.d);
    for (int64_t group = 0; group < a.t * a.b * a.g; ++group) {
      body((this->*key).data() + group * a.d, group * a.kStride + a.r * a.d, a.d);
      body((this->*value).data() + group * a.valueSize(), group * a.vStride + (a.r + 1) * a.d, a.valueSize());
    }
  }
};

struct AttentionExpected {
  std::vector<double> o, lse, dq, dk, dv, dbias;
  std::vector<double>
      biasTerms; // the magnitudes that each element of dbias adds up, which cancel: its roundings are theirs
};

// Probabilities of one query row, all keys; dropped[t] is dropout's factor, slope[t] the derivative of the score by scale q k.
struct ReferenceRow {
  std::vector<double> p, dropped, slope;
  double lse = 0;
};

inline bool isVisible(const AttentionProblem &x, int64_t s, int64_t t, int64_t b) {
  const plan::Attention &a = x.a;
  const int64_t query = x.queryPositions[s * a.b + b], key = x.keyPositions[t * a.b + b];
  return !(a.causal && key > query) && !(a.window > 0 && std::abs(query - key) >= a.window) &&
         !(a.documents && key < x.starts[s * a.b + b]) && !(a.ends && key >= x.ends[s * a.b + b]);
}

// As in the definition: exact buckets for near keys, then by the logarithm of the distance.
inline int64_t referenceBucket(const plan::Attention &a, int64_t distance) {
  const int64_t side = a.causal ? a.biasBuckets : a.biasBuckets / 2, exact = side / 2;
  const int64_t first = !a.causal && distance > 0 ? side : 0,
                away = std::abs(a.causal ? std::min<int64_t>(distance, 0) : distance);
  if (away < exact)
    return first + away;
  const float share = std::log(float(away) / float(exact)) / float(std::log(double(a.biasMaxDistance) / double(exact)));
  return first + std::min<int64_t>(side - 1, exact + static_cast<int64_t>(share * float(side - exact)));
}

inline int64_t referenceBias(const AttentionProblem &x, int64_t s, int64_t t, int64_t b, int64_t g, int64_t r) {
  const plan::Attention &a = x.a;
  const int64_t distance = int64_t(x.keyPositions[t * a.b + b]) - x.queryPositions[s * a.b + b];
  return (referenceBucket(a, distance) * a.g + g) * a.r + r;
}

inline ReferenceRow referenceRow(const AttentionProblem &x, int64_t s, int64_t b, int64_t g, int64_t r) {
  const plan::Attention &a = x.a;
  const int64_t query = x.queryPositions[s * a.b + b], head = a.headOffset.value + g * a.groupStride + r;
  const float *q = &x.q[(((s * a.b + b) * a.g + g) * a.r + r) * a.d];
  ReferenceRow row{std::vector<double>(a.t), std::vector<double>(a.t, 1), std::vector<double>(a.t, 1)};
  double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t t = 0; t < a.t; ++t) {
    const int64_t key = x.keyPositions[t * a.b + b];
    row.p[t] = -std::numeric_limits<double>::infinity();
    if (!isVisible(x, s, t, b))
      continue;
    row.p[t] = 0;
    for (int64_t d = 0; d < a.d; ++d)
      row.p[t] += a.scale * q[d] * x.k[((t * a.b + b) * a.g + g) * a.d + d];
    if (a.softcap > 0) {
      const double tangent = std::tanh(row.p[t] / a.softcap);
      row.p[t] = a.softcap * tangent, row.slope[t] = 1 - tangent * tangent;
    }
    if (!a.slopes.empty())
      row.p[t] -= a.slopes.at(head) * static_cast<double>(std::abs(key - query));
    if (a.hasBias())
      row.p[t] += x.bias[referenceBias(x, s, t, b, g, r)];
    maximum = std::max(maximum, row.p[t]);
    if (a.dropout > 0) {
      const PhiloxWords words = philox({uint32_t(x.samples[b]), uint32_t(head), uint32_t(query), uint32_t(key)},
                                       dropoutKey(uint64_t(a.seed.value), a.site, a.instance.value));
      row.dropped[t] = words[0] >= a.dropout * 4294967296.0 ? 1 / (1 - a.dropout) : 0;
    }
  }
  if (a.sinks) {
    const double sink = x.sinks[g * a.r + r];
    maximum = std::max(maximum, sink);
    sum = std::exp(sink - maximum);
  }
  for (double &p : row.p)
    sum += p = std::isinf(p) ? 0 : std::exp(p - maximum);
  for (double &p : row.p)
    p = sum > 0 ? p / sum : 0;
  row.lse = sum > 0 ? maximum + std::log(sum) : -std::numeric_limits<double>::infinity();
  return row;
}

inline void addReferenceRow(const AttentionProblem &x, int64_t s, int64_t b, int64_t g, int64_t r,
                            AttentionExpected &e) {
  const plan::Attention &a = x.a;
  const int64_t index = ((s * a.b + b) * a.g + g) * a.r + r;
  const int64_t w = a.valueSize();
  const auto keyAt = [&](int64_t t) { return ((t * a.b + b) * a.g + g) * a.d; };
  const auto valueAt = [&](int64_t t) { return ((t * a.b + b) * a.g + g) * w; };
  const ReferenceRow row = referenceRow(x, s, b, g, r);
  e.lse[index] = row.lse;
  for (int64_t t = 0; t < a.t; ++t)
    for (int64_t i = 0; i < w; ++i)
      e.o[index * w + i] += row.p[t] * row.dropped[t] * x.v[valueAt(t) + i];
  // The gradient of softmax: ds = p (dp - sum of p dp).
  std::vector<double> dp(a.t);
  double mean = 0;
  for (int64_t t = 0; t < a.t; ++t) {
    for (int64_t i = 0; i < w; ++i)
      dp[t] += row.dropped[t] * x.outputGradient[index * w + i] * x.v[valueAt(t) + i];
    mean += row.p[t] * dp[t];
  }
  for (int64_t t = 0; t < a.t; ++t) {
    if (a.hasBias()) {
      const int64_t at = referenceBias(x, s, t, b, g, r);
      e.dbias[at] += row.p[t] * (dp[t] - mean);
      e.biasTerms[at] += row.p[t] * (std::abs(dp[t]) + std::abs(mean));
    }
    for (int64_t d = 0; d < a.d; ++d) {
      const double ds = a.scale * row.slope[t] * row.p[t] * (dp[t] - mean);
      e.dq[index * a.d + d] += ds * x.k[keyAt(t) + d];
      e.dk[keyAt(t) + d] += ds * x.q[index * a.d + d];
    }
    for (int64_t i = 0; i < w; ++i)
      e.dv[valueAt(t) + i] += row.p[t] * row.dropped[t] * x.outputGradient[index * w + i];
  }
}

inline AttentionExpected reference(const AttentionProblem &x) {
  const plan::Attention &a = x.a;
  AttentionExpected e;
  e.o.resize(x.outputGradient.size()), e.dq.resize(x.q.size()), e.lse.resize(a.s * a.b * a.g * a.r);
  e.dk.resize(x.k.size()), e.dv.resize(x.v.size()), e.dbias.resize(x.bias.size()), e.biasTerms.resize(x.bias.size());
  for (int64_t s = 0; s < a.s; ++s)
    for (int64_t b = 0; b < a.b; ++b)
      for (int64_t g = 0; g < a.g; ++g)
        for (int64_t r = 0; r < a.r; ++r)
          addReferenceRow(x, s, b, g, r, e);
  return e;
}

} // namespace mgc::test
