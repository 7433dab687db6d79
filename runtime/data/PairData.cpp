// See PairData.h.
#include "runtime/data/PairData.h"

#include "runtime/data/BatchFile.h"

#include <algorithm>

namespace mgc {

using plan::Plan;

namespace {

class PairData : public BatchFileData {
public:
  static Result<std::unique_ptr<DataSource>> open(const BatchFile &file, const Plan &plan) {
    const BatchShape shape(plan);
    MGC_ASSIGN(ids, file.reader(kIds, ValueRange::tokens(shape.vocabulary)));
    MGC_ASSIGN(labels, file.reader(kLabels, ValueRange::labels(shape.vocabulary)));
    std::unique_ptr<PairData> data(new PairData(file, std::move(ids), std::move(labels), plan));
    MGC_TRY(data->openDecoderIds(file, plan));
    MGC_TRY(data->openMask(file));
    return std::unique_ptr<DataSource>(std::move(data));
  }

  Status batch(int64_t first, GlobalBatch &out) override {
    MGC_TRY(beginBatch(first, shape_, out));
    MGC_ASSIGN(known, numberOfBatch(first, shape_, steps_));
    const int64_t decoded = shape_.samples * shape_.length;
    MGC_TRY(ids_.read(known * shape_.samples * shape_.encoderLength, shape_.samples * shape_.encoderLength,
                      out.encoderTokens.data()));
    MGC_TRY(labels_.read(known * decoded, decoded, out.labels.data()));
    if (decoderIds_)
      MGC_TRY(decoderIds_->read(known * decoded, decoded, out.tokens.data()));
    else
      shiftLabels(out);
    return mask_ ? readEnds(known, out.encoderEnds) : Status::ok();
  }

  std::string describe() const override {
    return fmt::format("{}: {} batches of {} samples of {} and {} tokens", path_, steps_, shape_.samples,
                       shape_.encoderLength, shape_.length);
  }

private:
  PairData(const BatchFile &file, TokenReader ids, TokenReader labels, const Plan &plan)
      : BatchFileData(file, plan), ids_(std::move(ids)), labels_(std::move(labels)),
        startToken_(int32_t(plan.startToken)), paddingToken_(int32_t(plan.paddingToken)) {}

  Status openDecoderIds(const BatchFile &file, const Plan &plan) {
    if (!file.has(kDecoderIds)) {
      if (plan.startToken >= 0 && plan.paddingToken >= 0)
        return Status::ok();
      return errorf("{}: missing, and the plan does not say what they would be: its config.json has no {}; expected "
                    "{}, or a plan of a config.json with decoder_start_token_id and pad_token_id",
                    file.where(kDecoderIds), plan.startToken < 0 ? "decoder_start_token_id" : "pad_token_id",
                    kDecoderIds);
    }
    MGC_SET(decoderIds_, file.reader(kDecoderIds, ValueRange::tokens(shape_.vocabulary)));
    return Status::ok();
  }

  // A mask that is none is an error before training.
  Status openMask(const BatchFile &file) {
    if (!file.has(kMask))
      return Status::ok();
    MGC_SET(mask_, file.tensor(kMask));
    std::vector<int32_t> ends(static_cast<size_t>(shape_.samples * shape_.encoderLength));
    for (int64_t step = 0; step < steps_ && step * int64_t(ends.size()) < kScannedElements; ++step)
      MGC_TRY(readEnds(step, ends));
    return Status::ok();
  }

  Status readEnds(int64_t step, std::vector<int32_t> &ends) const {
    std::vector<int64_t> mask(static_cast<size_t>(shape_.encoderLength));
    for (int64_t sample = 0; sample < shape_.samples; ++sample) {
      const int64_t begin = sample * shape_.encoderLength;
      MGC_TRY(mask_->readAll(step * int64_t(ends.size()) + begin, shape_.encoderLength, mask.data()));
      MGC_ASSIGN(length, lengthOfMask(mask).at(where(kMask, step, sample)));
      std::fill_n(ends.begin() + begin, shape_.encoderLength, static_cast<int32_t>(length));
    }
    return Status::ok();
  }

  void shiftLabels(GlobalBatch &out) const {
    for (size_t i = 0; i < out.tokens.size(); ++i)
      out.tokens[i] = i % size_t(shape_.length) == 0       ? startToken_
                      : out.labels[i - 1] == kIgnoredLabel ? paddingToken_
                                                           : out.labels[i - 1];
  }

  TokenReader ids_, labels_;
  std::optional<TokenReader> decoderIds_; // none: labels, shifted
  std::optional<TensorFile> mask_;        // none: there is no padding
  int32_t startToken_, paddingToken_;
};

} // namespace

Status verifyNoDocuments(const DocumentOptions &documents) {
  if (!documents.endToken && !documents.masksEnds)
    return Status::ok();
  return errorf("{}: the model has an encoder, whose samples are no packed documents; expected it left out",
                documents.endToken ? "--eod-token-id" : "--eod-mask-loss");
}

Result<OpenedBatches> openPairs(const std::string &path, const Plan &plan, const DataOptions &options) {
  MGC_ASSIGN(file, BatchFile::open(path, BatchShape(plan)));
  MGC_TRY(verifyNoDocuments(options.documents));
  MGC_TRY(verifyNoMasking(options.masking, plan));
  if (file.has(kPositions))
    return errorf("{}: found, expected none: positions of both sequences count from 0", file.where(kPositions));
  MGC_TRY(file.verifyNames({kIds, kMask, kDecoderIds, kLabels}));
  MGC_ASSIGN(data, PairData::open(file, plan));
  return OpenedBatches{std::move(data), /*hasLabels=*/true};
}

} // namespace mgc
