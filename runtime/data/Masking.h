// Masked language modelling: which tokens of a sample are predicted, and what the model sees in their place. The rule is
// that of BERT, as transformers' DataCollatorForLanguageModeling has it: each token is chosen with one probability; of those
// chosen 80 % become the mask token, 10 % any token of the vocabulary, and 10 % stay.
//
//           before: labels of what may be chosen      after
//   tokens  101  7  8  9  102                         101     7  103     9   102
//   labels -100  7  8  9 -100                        -100  -100    8  -100  -100
//
// A choice is drawn from the seed, the number of the sample over the whole training, and the position: it depends on no
// layout, and differs from epoch to epoch.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mgc {

struct MaskingOptions {
  std::optional<double> probability = {}; // probability that a token is chosen; none: kMaskProbability
  std::optional<int64_t> maskToken = {};
  std::optional<int64_t> clsToken = {}, sepToken = {}; // around each sample of a stream
  std::vector<int64_t> specialTokens = {};             // never chosen, as the three above are not
  std::vector<std::string> flags() const;              // mgrun flags that were given
};
inline constexpr double kMaskProbability = 0.15;

// For data whose labels must be made; `isStream`: its samples are cut or made up. Refuses all options for a causal plan.
Status verifyMasking(const MaskingOptions &masking, const plan::Plan &plan, bool isStream);
// For data that have labels.
Status verifyNoMasking(const MaskingOptions &masking, const plan::Plan &plan);

class TokenMasker {
public:
  // `endToken` of documents is not chosen either.
  TokenMasker(const MaskingOptions &masking, std::optional<int64_t> endToken, int64_t vocabulary, uint64_t seed);
  // Masks one sample: labels are the tokens that may be chosen, kIgnoredLabel elsewhere.
  void mask(uint64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) const;
  std::string describe() const; // "15 % of the tokens are masked"

private:
  double probability_;
  int32_t maskToken_;
  std::vector<int32_t> kept_; // never chosen, ascending
  uint32_t vocabulary_;
  uint64_t seed_;
};

} // namespace mgc
