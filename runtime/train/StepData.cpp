// See StepData.h.
#include "runtime/train/StepData.h"

#include "runtime/data/TokenFiles.h"

#include <algorithm>

namespace mgc {

static Result<std::unique_ptr<DataSource>> openSource(const TrainingOptions &options,
                                                      const TrainingStart &start, const plan::Plan &plan) {
  const std::string tokenizer = start.weights ? tokenizerIn(*start.weights) : "";
  const SplitRequest request{Split::train, options.trainIters * plan.globalBatchSize};
  const DataOptions data = {options.binType,   options.textBytes,    tokenizer,
                            options.documents, options.masking,      options.tokenizer,
                            options.sft,       options.chatTemplate, *request.samples};
  if (options.data)
    return openData(*options.data, plan, options.seed, data);
  if (!options.corpus)
    return makeMockData(plan, options.seed, data);
  MGC_ASSIGN(corpus, openCorpus(*options.corpus, request, plan, options.seed, data));
  if (!corpus)
    return errorf(
        "--data-path: there is nothing to train on: the split train has no sequences; expected a larger "
        "first part of --split, or --train-data-path");
  return corpus;
}

Result<StepData> StepData::open(const TrainingOptions &options, const TrainingStart &start,
                                const plan::Plan &plan) {
  StepData data;
  MGC_ASSIGN(source, openSource(options, start, plan));
  data.source_ = std::move(source);
  data.trainIters_ = options.trainIters;
  data.batchSize_ = plan.globalBatchSize;
  data.isMasked_ = plan.objective == plan::Objective::masked;
  for (int i = 0; i < 2; ++i) {
    MGC_ASSIGN(batch, GlobalBatch::create(plan));
    data.batches_.push_back({-1, std::move(batch), {}});
  }
  return data;
}

std::string StepData::describe() const {
  const std::optional<double> epochs = source_->epochsOf(trainIters_);
  return source_->describe() +
         (epochs ? fmt::format("; {} steps of {} are {:.2f} epochs", trainIters_, batchSize_, *epochs) : "");
}

// A batch without a label that counts has no loss, and the step would do nothing but weight decay.
Status StepData::read(int64_t step, GlobalBatch &batch) {
  MGC_TRY(source_->batch(step, batch));
  if (std::ranges::any_of(batch.labels, [](int32_t label) { return label != kIgnoredLabel; }))
    return Status::ok();
  return errorf(
      "all {} labels of the batch are {}, so it has no loss; expected a token that counts{}",
      batch.labels.size(), kIgnoredLabel,
      isMasked_ ? ": more tokens in a step, or a higher --mlm-probability where tokens are masked here" : "");
}

Result<const GlobalBatch *> StepData::batchOf(int64_t step) {
  Batch &kept = batches_[step % 2];
  if (kept.step != step) {
    kept.step = step;
    kept.status = read(step, kept.batch).at(fmt::format("step {}", step));
  }
  if (!kept.status.isOk())
    return kept.status;
  return &std::as_const(kept.batch);
}

} // namespace mgc
