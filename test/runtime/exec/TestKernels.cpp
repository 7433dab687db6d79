// Row kernels of the hand-made plans: a model that predicts token * w[position], with a linear loss.
// Values, activations and their gradients are f32 or bf16, the gradients of weights too; all arithmetic is in f32.
// Rows are positions; scalar 0, where there is one, is the number of samples b.
#include "runtime/base/Bf16.h"

#include <cmath>
#include <cstdint>

namespace {

using mgc::Bf16;
using mgc::toFloat;

template <typename T> T *at(void *const *operands, int index) { return static_cast<T *>(operands[index]); }
void assign(float &to, float value) { to = value; }
void assign(Bf16 &to, float value) { to = mgc::toBf16(value); }

// activation[s,b] = token[s,b] * w[s]
template <typename T> void scaleForwardOf(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto *tokens = at<const int32_t>(operands, 0);
  const auto *w = at<const T>(operands, 1);
  auto *activation = at<T>(operands, 2);
  for (int64_t s = begin; s < end; ++s)
    for (int64_t b = 0; b < scalars[0]; ++b)
      assign(activation[s * scalars[0] + b], static_cast<float>(tokens[s * scalars[0] + b]) * toFloat(w[s]));
}

// wGradient[s] += sum over b of token * gradient
template <typename T, typename G>
void scaleBackwardOf(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto *tokens = at<const int32_t>(operands, 0);
  const auto *gradient = at<const T>(operands, 1);
  auto *wGradient = at<G>(operands, 2);
  for (int64_t s = begin; s < end; ++s) {
    float sum = toFloat(wGradient[s]);
    for (int64_t b = 0; b < scalars[0]; ++b)
      sum += static_cast<float>(tokens[s * scalars[0] + b]) * toFloat(gradient[s * scalars[0] + b]);
    assign(wGradient[s], sum);
  }
}

// Adds to results (loss_sum, tokens) and gives the gradient; one row, scalar 0 = elements.
template <typename T> void linearLossOf(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto *activation = at<const T>(operands, 0);
  const auto *weight = at<const float>(operands, 1);
  auto *gradient = at<T>(operands, 2);
  auto *results = at<float>(operands, 3);
  for (int64_t row = begin; row < end; ++row)
    for (int64_t i = 0; i < scalars[0]; ++i) {
      results[0] += toFloat(activation[i]) * weight[i];
      results[1] += weight[i];
      assign(gradient[i], weight[i]);
    }
}

// results[grad_norm] = |gradient|; one row, scalar 0 = elements.
template <typename G> void normOf(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto *gradient = at<const G>(operands, 0);
  for (int64_t row = begin; row < end; ++row) {
    float squares = 0;
    for (int64_t i = 0; i < scalars[0]; ++i)
      squares += toFloat(gradient[i]) * toFloat(gradient[i]);
    at<float>(operands, 1)[2] = std::sqrt(squares);
  }
}

// master -= lr * gradient / tokens, w = its rounding
template <typename G> void descendMastersOf(void *const *operands, const int64_t *, int64_t begin, int64_t end) {
  auto *w = at<Bf16>(operands, 0);
  const auto *gradient = at<const G>(operands, 1);
  const float lr = at<const float>(operands, 2)[0], tokens = at<const float>(operands, 3)[1];
  auto *master = at<float>(operands, 4);
  for (int64_t i = begin; i < end; ++i) {
    master[i] -= lr * toFloat(gradient[i]) / tokens;
    assign(w[i], master[i]);
  }
}

} // namespace

extern "C" {

// A kernel of this name for the types that its body is given.
#define MGC_TEST_KERNEL(name, body)                                                                                    \
  void name(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {                               \
    (body)(operands, scalars, begin, end);                                                                             \
  }
MGC_TEST_KERNEL(scaleForward, scaleForwardOf<float>)
MGC_TEST_KERNEL(scaleForwardBf16, scaleForwardOf<Bf16>)
MGC_TEST_KERNEL(scaleBackward, (scaleBackwardOf<float, float>))
MGC_TEST_KERNEL(scaleBackwardBf16, (scaleBackwardOf<Bf16, float>))
MGC_TEST_KERNEL(scaleBackwardBf16Bf16, (scaleBackwardOf<Bf16, Bf16>))
MGC_TEST_KERNEL(linearLoss, linearLossOf<float>)
MGC_TEST_KERNEL(linearLossBf16, linearLossOf<Bf16>)
MGC_TEST_KERNEL(norm, normOf<float>)
MGC_TEST_KERNEL(normBf16, normOf<Bf16>)
MGC_TEST_KERNEL(descendMasters, descendMastersOf<float>)
MGC_TEST_KERNEL(descendMastersBf16, descendMastersOf<Bf16>)

// w -= lr * gradient / tokens
void descend(void *const *operands, const int64_t *, int64_t begin, int64_t end) {
  auto *w = at<float>(operands, 0);
  const auto *gradient = at<const float>(operands, 1);
  const float lr = at<const float>(operands, 2)[0], tokens = at<const float>(operands, 3)[1];
  for (int64_t i = begin; i < end; ++i)
    w[i] -= lr * gradient[i] / tokens;
}

// Adds to results (loss_sum, tokens); types, ends and weights are [s,b], ends of keys [t,b]. One row; scalars s, t, b.
void encoderLoss(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto *types = at<const int32_t>(operands, 0), *ends = at<const int32_t>(operands, 1),
             *keyEnds = at<const int32_t>(operands, 2);
  const auto *weights = at<const float>(operands, 3);
  auto *results = at<float>(operands, 4);
  const int64_t queries = scalars[0], keys = scalars[1], samples = scalars[2];
  for (int64_t row = begin; row < end; ++row)
    for (int64_t i = 0; i < queries * samples; ++i) {
      int32_t loss = 100 * types[i] + ends[i];
      for (int64_t t = 0; t < keys; ++t)
        loss += keyEnds[t * samples + i % samples] == ends[i];
      results[0] += static_cast<float>(loss) * weights[i];
      results[1] += weights[i];
    }
}

// The arguments that showScalars is given, an operand that is written; the other kernels do not state theirs.
extern const int64_t showScalars_needs[];
const int64_t showScalars_needs[] = {1, 1, 1, 1, 64, 0, 0};

// Writes its scalars, as many as scalar 0 says, as i32.
void showScalars(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t i = 0; i < scalars[0]; ++i)
      at<int32_t>(operands, 0)[i] = static_cast<int32_t>(scalars[i]);
}
}
