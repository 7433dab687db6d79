// How a sample is made of a stream of tokens: of one that is cut, or made up.
//
//   causal, 4 tokens    stream 5 6 7 8 9    tokens 5 6 7 8          labels 6 7 8 9
//   masked, 4 tokens    stream 5 6 7 8      tokens 5 6 7 8          labels 5 6 7 8
//   the same, framed    stream 5 6          tokens [CLS] 5 6 [SEP]  labels -100 5 6 -100
//
// Labels of a masked sample are the tokens that may be chosen; TokenMasker (Masking.h) chooses among them.
#pragma once

#include "runtime/data/Masking.h"

namespace mgc {

class SampleForm {
public:
  SampleForm(const plan::Plan &plan, const MaskingOptions &masking);

  int64_t advance() const { return content_; }                     // tokens of the stream from one sample to the next
  int64_t reads() const { return content_ + (isMasked_ ? 0 : 1); } // tokens of the stream that a sample is made of
  void fill(std::span<const int32_t> read, std::span<int32_t> tokens, std::span<int32_t> labels) const;
  std::string describe() const; // the tokens that reads() counts, for messages

private:
  bool isFramed() const { return cls_.has_value(); }
  int64_t length_;
  bool isMasked_;
  std::optional<int32_t> cls_, sep_; // both or none
  int64_t content_;
};

} // namespace mgc
