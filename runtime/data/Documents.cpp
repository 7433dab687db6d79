// See Documents.h.
#include "runtime/data/Documents.h"

#include <algorithm>

namespace mgc {

Status verifyDocuments(const DocumentOptions &documents, const plan::Plan &plan, bool saysWhereTheyBegin) {
  if (documents.endToken && (*documents.endToken < 0 || *documents.endToken >= plan.vocabulary))
    return errorf("--eod-token-id {}: expected 0 to {}, a token of the model's vocabulary", *documents.endToken,
                  plan.vocabulary - 1);
  const bool isMasked = plan.objective == plan::Objective::masked;
  if (documents.masksEnds && isMasked)
    return errorf("--eod-mask-loss: the plan of the {} model predicts masked tokens from both sides, and none "
                  "from the document before; leave it out",
                  plan.modelType);
  const bool isKnown = documents.endToken || saysWhereTheyBegin;
  if (documents.endToken && !documents.masksEnds && !plan::readsDocuments(plan))
    return errorf("--eod-token-id {} changes nothing: the plan's sequences are one document each; expected "
                  "{}, or a plan of mgc compile --reset-position-ids --reset-attention-mask",
                  *documents.endToken,
                  isMasked ? "--special-token-ids for a token that is never masked" : "--eod-mask-loss beside it");
  if (documents.masksEnds && !isKnown)
    return errorf("--eod-mask-loss: nothing says where a document ends; expected --eod-token-id");
  if (plan::readsDocuments(plan) && !isKnown)
    return errorf(
        "the plan is of packed documents (--reset-position-ids, --reset-attention-mask), but nothing "
        "says where a document ends; expected --eod-token-id, with --data-path "
        "--dataloader-inter-document-masking, position_ids in a .safetensors file, or for a .jsonl a tokenizer "
        "whose tokenizer_config.json has eos_token");
  return Status::ok();
}

void findDocuments(std::span<const int32_t> tokens, int64_t length, int64_t endToken, std::span<int32_t> starts) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto place = static_cast<int32_t>(i % static_cast<size_t>(length));
    const bool begins = place == 0 || tokens[i - 1] == endToken;
    starts[i] = begins ? place : starts[i - 1];
  }
}

static Status isTooLong(int64_t position, int64_t longest) {
  return errorf("position {}: the document has more than {} tokens, for which the model has learned positions; "
                "expected shorter documents",
                position, longest);
}

Status startsOfPositions(std::span<const int64_t> positions, const PositionRule &rule, std::span<int32_t> starts) {
  int32_t start = 0;
  for (size_t i = 0; i < positions.size(); ++i) {
    const int64_t found = positions[i], next = i == 0 ? 0 : positions[i - 1] + 1;
    if (found != next && (found != 0 || i == 0))
      return errorf("position {}: found {}, expected {}{}", i, found, next,
                    i == 0 ? ": a document begins" : ", or 0 where a document begins");
    if (found == 0 && i > 0 && !rule.mayRestart)
      return errorf("position {}: a document begins, but the plan reads a sequence as one document; expected a plan "
                    "compiled with --reset-position-ids --reset-attention-mask",
                    i);
    if (rule.longest > 0 && found >= rule.longest)
      return isTooLong(static_cast<int64_t>(i), rule.longest);
    start = found == 0 ? static_cast<int32_t>(i) : start;
    starts[i] = start;
  }
  return Status::ok();
}

void maskEnds(std::span<const int32_t> tokens, int64_t length, std::optional<int64_t> endToken,
              std::span<const int32_t> starts, int32_t ignored, std::span<int32_t> labels) {
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto next = static_cast<int32_t>(i % static_cast<size_t>(length)) + 1;
    const bool isLast = next < length && !starts.empty() && starts[i + 1] == next;
    if (isLast || (endToken && tokens[i] == *endToken))
      labels[i] = ignored;
  }
}

void findEnds(std::span<const int32_t> starts, int64_t length, std::span<int32_t> ends) {
  int64_t end = length; // end of the document that token i is in
  for (size_t i = starts.size(); i-- > 0;) {
    const int64_t place = static_cast<int64_t>(i) % length, padding = ends[i];
    if (place == length - 1)
      end = length;
    const bool isPadded = padding > starts[i] && padding < end;
    ends[i] = static_cast<int32_t>(isPadded ? padding : end);
    if (starts[i] == place)
      end = place;
  }
}

Result<int64_t> lengthOfMask(std::span<const int64_t> mask) {
  constexpr std::string_view kExpected = "expected ones, and zeros behind them where the sample has padding";
  const auto isOther = [](int64_t value) { return value != 0 && value != 1; };
  if (const auto other = std::ranges::find_if(mask, isOther); other != mask.end())
    return errorf("position {}: found {}, expected 0 or 1", other - mask.begin(), *other);
  const auto firstZero = std::ranges::find(mask, 0);
  const auto hole = std::find(firstZero, mask.end(), 1);
  const int64_t length = firstZero - mask.begin();
  if (hole != mask.end())
    return errorf("position {}: found 1 behind the 0 at position {}; {}", hole - mask.begin(), length, kExpected);
  if (length == 0)
    return errorf("position 0: found zeros alone, a sample without tokens; {}", kExpected);
  return length;
}

Status verifyEnds(std::span<const int32_t> ends, std::span<const int32_t> starts, int64_t length) {
  for (size_t i = 0; i < ends.size(); ++i) {
    const auto place = static_cast<int64_t>(i % static_cast<size_t>(length));
    const bool isBehindStart = starts.empty() || starts[i] < ends[i];
    const bool continues = place > 0 && ends[i] == ends[i - 1] && isBehindStart;
    const bool begins = (place == 0 || ends[i - 1] <= place) && ends[i] > place && ends[i] <= length;
    if (!continues && !begins)
      return errorf("sample {} of the batch, position {}: its document ends at {}, expected {}",
                    i / static_cast<size_t>(length), place, ends[i],
                    place > 0 && ends[i - 1] > place ? fmt::format("{}, as of the token before", ends[i - 1])
                                                     : fmt::format("{} to {}", place + 1, length));
  }
  return Status::ok();
}

Status verifyStarts(std::span<const int32_t> starts, int64_t length, int64_t longest) {
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto place = static_cast<int64_t>(i % static_cast<size_t>(length));
    const bool continues = place > 0 && starts[i] == starts[i - 1];
    const auto where = [&] { return fmt::format("sample {} of the batch", i / static_cast<size_t>(length)); };
    if (starts[i] != place && !continues)
      return errorf("{}, position {}: its document begins at {}", where(), place, starts[i]);
    if (longest > 0 && place - starts[i] >= longest)
      return isTooLong(place, longest).at(where());
  }
  return Status::ok();
}

} // namespace mgc
