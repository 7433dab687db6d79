// See BatchData.h.
#include "runtime/data/BatchData.h"

#include "runtime/data/BatchFile.h"
#include "runtime/data/ImageData.h"
#include "runtime/data/PairData.h"

#include <algorithm>

namespace mgc {

using plan::Plan;

namespace {

// Whether some number of the plan is of all tokens, padding or not: the balance, the load or the capacity of experts.
bool countsAllTokens(const Plan &plan) {
  const auto isOfRouters = [](size_t term) { return term != indexOf(plan::StepTotal::mtpLoss); };
  const auto counts = [](const plan::StagePlan &stage) {
    return std::ranges::any_of(stage.buckets, &plan::Bucket::receivesLoad);
  };
  const auto drops = [](const plan::Program &program) {
    return std::ranges::any_of(program.instructions, [](const plan::Instruction &instruction) {
      return std::holds_alternative<plan::DropChoices>(instruction.body);
    });
  };
  return std::ranges::any_of(plan::lossTermsOf(plan), isOfRouters) || std::ranges::any_of(plan.stages, counts) ||
         std::ranges::any_of(plan.programs, drops);
}

} // namespace

std::string harmOfPadding(const Plan &plan) {
  if (plan.objective == plan::Objective::masked && !plan::reads(plan, plan::isEnd))
    return "attention of the plan does not end where padding begins, so tokens would see it";
  return countsAllTokens(plan) ? "routers of experts count all tokens for balance, load or capacity" : "";
}

namespace {

class BatchData : public BatchFileData {
public:
  static Result<std::unique_ptr<DataSource>> open(const BatchFile &file, const Plan &plan) {
    const BatchShape shape(plan);
    MGC_ASSIGN(ids, file.reader(kIds, ValueRange::tokens(shape.vocabulary)));
    std::unique_ptr<BatchData> data(new BatchData(file, std::move(ids), plan));
    if (file.has(kLabels))
      MGC_SET(data->labels_, file.reader(kLabels, ValueRange::labels(shape.vocabulary)));
    if (file.has(kTypes))
      MGC_SET(data->types_, file.reader(kTypes, ValueRange::types(plan.tokenTypes)));
    MGC_TRY(data->openPositions(file));
    MGC_TRY(data->openMask(file));
    return std::unique_ptr<DataSource>(std::move(data));
  }

  Status batch(int64_t first, GlobalBatch &out) override {
    MGC_TRY(beginBatch(first, shape_, out));
    MGC_ASSIGN(known, numberOfBatch(first, shape_, steps_));
    const int64_t elements = shape_.samples * shape_.length, begin = known * elements;
    MGC_TRY(ids_.read(begin, elements, out.tokens.data()));
    if (labels_)
      MGC_TRY(labels_->read(begin, elements, out.labels.data()));
    else
      out.labels = out.tokens;
    if (types_)
      MGC_TRY(types_->read(begin, elements, out.types.empty() ? nullptr : out.types.data()));
    if (positions_)
      MGC_TRY(readStarts(known, out.starts));
    return mask_ ? pad(known, out) : Status::ok();
  }

  std::string describe() const override {
    return fmt::format("{}: {} batches of {} samples of {} tokens", path_, steps_, shape_.samples, shape_.length);
  }

private:
  BatchData(const BatchFile &file, TokenReader ids, const Plan &plan)
      : BatchFileData(file, plan), ids_(std::move(ids)), harm_(harmOfPadding(plan)),
        rule_{plan::readsDocuments(plan), plan.longestDocument} {}

  // Calls `check` with each step of the beginning of the file.
  template <typename Check> Status scan(const Check &check) const {
    for (int64_t step = 0; step < steps_ && step * shape_.samples * shape_.length < kScannedElements; ++step)
      MGC_TRY(check(step));
    return Status::ok();
  }

  // Documents that a plan is not made for are an error before training, as wrong tokens are.
  Status openPositions(const BatchFile &file) {
    if (!file.has(kPositions))
      return Status::ok();
    MGC_SET(positions_, file.tensor(kPositions));
    std::vector<int32_t> none;
    return scan([&](int64_t step) { return readStarts(step, none); });
  }

  // Padding that a plan is not made for, too.
  Status openMask(const BatchFile &file) {
    if (!file.has(kMask))
      return Status::ok();
    MGC_SET(mask_, file.tensor(kMask));
    return scan([&](int64_t step) {
      return eachPadded(step, [&](int64_t sample, int64_t length) -> Status {
        if (!labels_)
          return Status::ok();
        std::vector<int32_t> labels(static_cast<size_t>(shape_.length - length));
        MGC_TRY(labels_->read((step * shape_.samples + sample) * shape_.length + length, shape_.length - length,
                              labels.data()));
        return verifyPaddedLabels(labels, step, sample, length);
      });
    });
  }

  // Calls `visit` with each sample of the step that has padding, and the tokens before it.
  template <typename Visit> Status eachPadded(int64_t step, const Visit &visit) const {
    std::vector<int64_t> mask(static_cast<size_t>(shape_.length));
    for (int64_t sample = 0; sample < shape_.samples; ++sample) {
      MGC_TRY(mask_->readAll((step * shape_.samples + sample) * shape_.length, shape_.length, mask.data()));
      MGC_ASSIGN(length, lengthOfMask(mask).at(where(kMask, step, sample)));
      if (length == shape_.length)
        continue;
      if (!harm_.empty())
        return errorf("{}: padding from position {} on, but {}; expected ones alone", where(kMask, step, sample),
                      length, harm_);
      MGC_TRY(visit(sample, length));
    }
    return Status::ok();
  }

  // Labels of padding, from position `length` on: what the model would learn of it is of no use.
  Status verifyPaddedLabels(std::span<const int32_t> labels, int64_t step, int64_t sample, int64_t length) const {
    const auto counted = std::ranges::find_if(labels, [](int32_t label) { return label != kIgnoredLabel; });
    if (counted == labels.end())
      return Status::ok();
    return errorf("{}: position {}: found {} where {} has padding, expected {} (ignored)", where(kLabels, step, sample),
                  length + (counted - labels.begin()), *counted, kMask, kIgnoredLabel);
  }

  Status pad(int64_t step, GlobalBatch &out) const {
    return eachPadded(step, [&](int64_t sample, int64_t length) -> Status {
      const auto begin = static_cast<size_t>(sample * shape_.length);
      const auto labels =
          std::span(out.labels)
              .subspan(begin + static_cast<size_t>(length), static_cast<size_t>(shape_.length - length));
      if (labels_)
        MGC_TRY(verifyPaddedLabels(labels, step, sample, length));
      std::ranges::fill(labels, kIgnoredLabel);
      if (!out.ends.empty())
        std::fill_n(out.ends.begin() + static_cast<ptrdiff_t>(begin), shape_.length, static_cast<int32_t>(length));
      return Status::ok();
    });
  }

  // Where `starts` is empty, the positions are only checked.
  Status readStarts(int64_t step, std::vector<int32_t> &starts) const {
    std::vector<int64_t> positions(static_cast<size_t>(shape_.length));
    std::vector<int32_t> found(positions.size());
    for (int64_t sample = 0; sample < shape_.samples; ++sample) {
      MGC_TRY(positions_->readAll((step * shape_.samples + sample) * shape_.length, shape_.length, positions.data()));
      MGC_TRY(startsOfPositions(positions, rule_, found).at(where(kPositions, step, sample)));
      if (!starts.empty())
        std::ranges::copy(found, starts.begin() + sample * shape_.length);
    }
    return Status::ok();
  }

  TokenReader ids_;
  std::optional<TokenReader> labels_, types_;
  std::optional<TensorFile> positions_; // none: each sequence is one document
  std::optional<TensorFile> mask_;      // none: there is no padding
  std::string harm_;                    // the problem with padding; empty: none
  PositionRule rule_;
};

// Labels that are missing are made by masking, where that is asked for.
Status verifyLabels(const BatchFile &file, const Plan &plan, const MaskingOptions &masking) {
  if (file.has(kLabels))
    return verifyNoMasking(masking, plan).at(file.where(kLabels));
  const bool isMasked = plan.objective == plan::Objective::masked;
  if (isMasked && masking.probability)
    return verifyMasking(masking, plan, /*isStream=*/false);
  if (isMasked)
    return errorf("{}: missing, expected the labels of masked tokens, or --mlm-probability and "
                  "--mask-token-id, which mask {}",
                  file.where(kLabels), kIds);
  MGC_TRY(verifyNoMasking(masking, plan));
  return file.tensor(kLabels).status();
}

} // namespace

Result<OpenedBatches> openBatches(const std::string &path, const Plan &plan, const DataOptions &options) {
  if (BatchShape(plan).hasPairs)
    return openPairs(path, plan, options);
  MGC_ASSIGN(file, BatchFile::open(path, BatchShape(plan)));
  const bool hasImages = plan::readsImages(plan);
  if (hasImages) {
    MGC_TRY(verifyNoDocuments(options.documents));
    MGC_TRY(file.verifyNames({kIds, kLabels, kPositions, kMask, kTypes, kPixels}));
  } else {
    MGC_TRY(file.verifyNames({kIds, kLabels, kPositions, kMask, kTypes}));
  }
  if (file.has(kPositions) && options.documents.endToken)
    return errorf("{}: {} say where documents begin; expected no --eod-token-id", path, kPositions);
  MGC_TRY(verifyDocuments(options.documents, plan, file.has(kPositions)));
  MGC_TRY(verifyLabels(file, plan, options.masking));
  MGC_ASSIGN(data, BatchData::open(file, plan));
  if (hasImages) {
    MGC_ASSIGN(whole, withImages(std::move(data), file, plan));
    return OpenedBatches{std::move(whole), file.has(kLabels)};
  }
  return OpenedBatches{std::move(data), file.has(kLabels)};
}

} // namespace mgc
