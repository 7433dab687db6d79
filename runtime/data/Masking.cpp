// See Masking.h.
#include "runtime/data/Masking.h"

#include "runtime/data/Data.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc {

namespace {

struct NamedToken {
  const char *flag;
  std::optional<int64_t> token;
};

std::vector<NamedToken> tokensOf(const MaskingOptions &masking) {
  std::vector<NamedToken> tokens = {{"--mask-token-id", masking.maskToken},
                                    {"--cls-token-id", masking.clsToken},
                                    {"--sep-token-id", masking.sepToken}};
  for (const int64_t token : masking.specialTokens)
    tokens.push_back({"--special-token-ids", token});
  return tokens;
}

Status verifyTokens(const MaskingOptions &masking, const plan::Plan &plan) {
  for (const auto &[flag, token] : tokensOf(masking))
    if (token && (*token < 0 || *token >= plan.vocabulary))
      return errorf("{} {}: expected 0 to {}, a token of the model's vocabulary", flag, *token, plan.vocabulary - 1);
  for (const auto &[flag, token] :
       {NamedToken{"--cls-token-id", masking.clsToken}, NamedToken{"--sep-token-id", masking.sepToken}})
    if (token && token == masking.maskToken)
      return errorf("{} {}: is --mask-token-id too; expected two tokens of the tokenizer", flag, *token);
  return Status::ok();
}

// [CLS] and [SEP] around each sample of a stream.
Status verifyFrame(const MaskingOptions &masking, const plan::Plan &plan) {
  if (!masking.clsToken && !masking.sepToken)
    return Status::ok();
  const char *given = masking.clsToken ? "--cls-token-id" : "--sep-token-id";
  if (masking.clsToken.has_value() != masking.sepToken.has_value())
    return errorf("{} without {}: a sample has both around it or none; tokens that are never chosen are "
                  "--special-token-ids",
                  given, masking.clsToken ? "--sep-token-id" : "--cls-token-id");
  if (plan::readsDocuments(plan))
    return errorf("{}: the plan is of packed documents, and a sample may have several; expected documents "
                  "that have these tokens in the data, and --special-token-ids {},{}",
                  given, *masking.clsToken, *masking.sepToken);
  if (plan.sequenceLength < 3)
    return errorf("{}: a sequence of {} has no token besides [CLS] and [SEP]; expected at least 3", given,
                  plan.sequenceLength);
  return Status::ok();
}

} // namespace

std::vector<std::string> MaskingOptions::flags() const {
  std::vector<std::string> given;
  if (probability)
    given.emplace_back("--mlm-probability");
  for (const auto &[flag, token] : tokensOf(*this))
    if (token && (given.empty() || given.back() != flag))
      given.emplace_back(flag);
  return given;
}

static Status verifyObjective(const std::vector<std::string> &flags, const plan::Plan &plan) {
  if (flags.empty() || plan.objective == plan::Objective::masked)
    return Status::ok();
  return errorf("{}: the plan of the {} model predicts the next token and masks none; expected the plan of a "
                "model that predicts masked tokens, or no such flag",
                fmt::join(flags, ", "), plan.modelType);
}

Status verifyNoMasking(const MaskingOptions &masking, const plan::Plan &plan) {
  const std::vector<std::string> flags = masking.flags();
  MGC_TRY(verifyObjective(flags, plan));
  if (flags.empty())
    return Status::ok();
  return errorf("{}: the labels of the data say which tokens are predicted; expected no such flag, or data "
                "without labels",
                fmt::join(flags, ", "));
}

Status verifyMasking(const MaskingOptions &masking, const plan::Plan &plan, bool isStream) {
  MGC_TRY(verifyObjective(masking.flags(), plan));
  if (plan.objective == plan::Objective::causal)
    return Status::ok();
  if (!masking.maskToken)
    return errorf("the plan of the {} model predicts masked tokens, but nothing says which token masks them; "
                  "expected --mask-token-id: the id that the tokenizer's tokenizer.json has among its "
                  "added_tokens for the mask_token of its tokenizer_config.json ([MASK], <mask>)",
                  plan.modelType);
  const double probability = masking.probability.value_or(kMaskProbability);
  if (!(probability > 0 && probability <= 1))
    return errorf("--mlm-probability {}: expected more than 0, at most 1", probability);
  MGC_TRY(verifyTokens(masking, plan));
  return isStream ? verifyFrame(masking, plan) : Status::ok();
}

TokenMasker::TokenMasker(const MaskingOptions &masking, std::optional<int64_t> endToken, int64_t vocabulary,
                         uint64_t seed)
    : probability_(masking.probability.value_or(kMaskProbability)),
      maskToken_(static_cast<int32_t>(*masking.maskToken)), vocabulary_(static_cast<uint32_t>(vocabulary)),
      seed_(seed) {
  std::vector<NamedToken> tokens = tokensOf(masking);
  tokens.push_back({"--eod-token-id", endToken});
  for (const auto &[flag, token] : tokens)
    if (token)
      kept_.push_back(static_cast<int32_t>(*token));
  std::ranges::sort(kept_);
}

// A word below it has the probability p.
static uint64_t thresholdOf(double p) { return dropoutThreshold(p); }

void TokenMasker::mask(uint64_t sample, std::span<int32_t> tokens, std::span<int32_t> labels) const {
  static const uint64_t domain = hashName("masked tokens");
  const uint64_t isChosen = thresholdOf(probability_), isMasked = thresholdOf(0.8), isReplaced = thresholdOf(0.9);
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kIgnoredLabel)
      continue;
    const PhiloxWords words =
        philox({lowWord(sample), highWord(sample), static_cast<uint32_t>(i), lowWord(domain)}, philoxKey(seed_));
    if (words[0] >= isChosen || std::ranges::binary_search(kept_, tokens[i])) {
      labels[i] = kIgnoredLabel;
      continue;
    }
    if (words[1] < isMasked)
      tokens[i] = maskToken_;
    else if (words[1] < isReplaced)
      tokens[i] = static_cast<int32_t>(uint64_t(words[2]) * vocabulary_ >> 32);
  }
}

std::string TokenMasker::describe() const {
  return fmt::format("{:.4g} % of the tokens are masked", 100 * probability_);
}

} // namespace mgc
