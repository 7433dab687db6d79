// Row kernels of the hand-made plans: a model that predicts token * w[position], with a linear loss.
// Rows are positions; scalar 0, where there is one, is the number of samples b.
#include <cmath>
#include <cstdint>

namespace {
template <typename T> T *at(void *const *operands, int index) { return static_cast<T *>(operands[index]); }
} // namespace

extern "C" {

// activation[s,b] = token[s,b] * w[s]
void scaleForward(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto *tokens = at<const int32_t>(operands, 0);
  const auto *w = at<const float>(operands, 1);
  auto *activation = at<float>(operands, 2);
  for (int64_t s = begin; s < end; ++s)
    for (int64_t b = 0; b < scalars[0]; ++b)
      activation[s * scalars[0] + b] = static_cast<float>(tokens[s * scalars[0] + b]) * w[s];
}

// wGradient[s] += sum over b of token * gradient
void scaleBackward(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto *tokens = at<const int32_t>(operands, 0);
  const auto *gradient = at<const float>(operands, 1);
  auto *wGradient = at<float>(operands, 2);
  for (int64_t s = begin; s < end; ++s)
    for (int64_t b = 0; b < scalars[0]; ++b)
      wGradient[s] += static_cast<float>(tokens[s * scalars[0] + b]) * gradient[s * scalars[0] + b];
}

// Adds to results (loss_sum, tokens) and gives the gradient; one row, scalar 0 = elements.
void linearLoss(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto *activation = at<const float>(operands, 0);
  const auto *weight = at<const float>(operands, 1);
  auto *gradient = at<float>(operands, 2);
  auto *results = at<float>(operands, 3);
  for (int64_t row = begin; row < end; ++row)
    for (int64_t i = 0; i < scalars[0]; ++i) {
      results[0] += activation[i] * weight[i];
      results[1] += weight[i];
      gradient[i] = weight[i];
    }
}

// results[grad_norm] = |gradient|; one row, scalar 0 = elements.
void norm(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {
  const auto *gradient = at<const float>(operands, 0);
  for (int64_t row = begin; row < end; ++row) {
    float squares = 0;
    for (int64_t i = 0; i < scalars[0]; ++i)
      squares += gradient[i] * gradient[i];
    at<float>(operands, 1)[2] = std::sqrt(squares);
  }
}

// w -= lr * gradient / tokens
void descend(void *const *operands, const int64_t *, int64_t begin, int64_t end) {
  auto *w = at<float>(operands, 0);
  const auto *gradient = at<const float>(operands, 1);
  const float lr = at<const float>(operands, 2)[0], tokens = at<const float>(operands, 3)[1];
  for (int64_t i = begin; i < end; ++i)
    w[i] -= lr * gradient[i] / tokens;
}

// What showScalars is given at least; the others do not say.
extern const int64_t showScalars_needs[];
const int64_t showScalars_needs[] = {1, 1, 1, 4};

// Writes its scalars, as many as scalar 0 says, as i32.
void showScalars(void *const *operands, const int64_t *scalars, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    for (int64_t i = 0; i < scalars[0]; ++i)
      at<int32_t>(operands, 0)[i] = static_cast<int32_t>(scalars[i]);
}
}
