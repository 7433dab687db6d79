// See SampleForm.h.
#include "runtime/data/SampleForm.h"

#include "runtime/data/Data.h"

#include <algorithm>

namespace mgc {

SampleForm::SampleForm(const plan::Plan &plan, const MaskingOptions &masking)
    : length_(plan.sequenceLength), isMasked_(plan.objective == plan::Objective::masked) {
  if (masking.clsToken && masking.sepToken)
    cls_ = static_cast<int32_t>(*masking.clsToken), sep_ = static_cast<int32_t>(*masking.sepToken);
  content_ = length_ - (isFramed() ? 2 : 0);
}

void SampleForm::fill(std::span<const int32_t> read, std::span<int32_t> tokens, std::span<int32_t> labels) const {
  const auto content = read.first(static_cast<size_t>(content_));
  std::ranges::copy(content, tokens.begin() + (isFramed() ? 1 : 0));
  if (!isMasked_) {
    std::ranges::copy(read.subspan(1, labels.size()), labels.begin());
    return;
  }
  std::ranges::copy(content, labels.begin() + (isFramed() ? 1 : 0));
  if (isFramed()) {
    tokens.front() = *cls_, tokens.back() = *sep_;
    labels.front() = labels.back() = kIgnoredLabel;
  }
}

std::string SampleForm::describe() const {
  if (!isMasked_)
    return fmt::format("sequence length {} and one more to predict", length_);
  return fmt::format("sequence length {}{}", length_, isFramed() ? " less [CLS] and [SEP]" : "");
}

} // namespace mgc
