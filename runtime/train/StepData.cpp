// See StepData.h.
#include "runtime/train/StepData.h"

#include "runtime/data/TokenFiles.h"
#include "runtime/random/Philox.h"

#include <algorithm>

namespace mgc {

using Source = std::unique_ptr<DataSource>;

// A file of --data's kind; none: the split has none.
static std::optional<std::string> fileOf(const TrainingOptions &options, Split split) {
  return split == Split::train ? options.data : split == Split::valid ? options.validData : std::nullopt;
}

// Other made-up data of the same kind.
static uint64_t seedOf(const TrainingOptions &options, Split split) {
  return split == Split::train ? options.seed : options.seed ^ hashName(toString(split));
}

// Null: there are no data of the split.
static Result<Source> openSource(const TrainingOptions &options, const TrainingStart &start, const plan::Plan &plan,
                                 const StepData::Request &request) {
  const std::string tokenizer = start.weights ? tokenizerIn(*start.weights) : "";
  ChatOptions chats = options.chats;
  chats.cache = options.corpus.cache;
  const DataOptions data = {options.binType, options.textBytes, tokenizer, options.documents,
                            options.masking, options.tokenizer, chats,     request.samples,
                            request.reading};
  if (const std::optional<std::string> file = fileOf(options, request.split))
    return openData(*file, plan, options.seed, data);
  if (options.hasCorpus())
    return openCorpus(options.corpus, {request.split, request.samples}, plan, options.seed, data);
  if (options.data || request.split == Split::test)
    return Source();
  return makeMockData(plan, seedOf(options, request.split), data);
}

Result<std::optional<StepData>> StepData::open(const TrainingOptions &options, const TrainingStart &start,
                                               const plan::Plan &plan, const Request &request) {
  StepData data;
  MGC_ASSIGN(source, openSource(options, start, plan, request));
  if (!source)
    return std::optional<StepData>();
  data.source_ = std::move(source);
  data.request_ = request;
  data.isMasked_ = plan.objective == plan::Objective::masked;
  for (int i = 0; i < 2; ++i) {
    MGC_ASSIGN(batch, GlobalBatch::create(plan));
    data.batches_.push_back({-1, std::move(batch), {}});
  }
  return std::optional(std::move(data));
}

std::string StepData::describe() const {
  const int64_t samples = request_.samples, size = request_.from.size;
  const std::optional<double> epochs = source_->epochsOf(samples);
  if (!epochs)
    return source_->summary();
  const std::string read = request_.steps * size == samples ? fmt::format("{} steps of {}", request_.steps, size)
                                                            : fmt::format("{} samples", samples);
  return fmt::format("{}; {} are {:.2f} epochs", source_->summary(), read, *epochs);
}

std::string StepData::describeUnlabelled(int64_t step) {
  return fmt::format("all {} labels of the batch are {}, so it has no loss{}; {}", batches_.front().batch.labels.size(),
                     kIgnoredLabel,
                     isMasked_ ? "; more tokens in a step have some, or a higher --mlm-probability where tokens are "
                                 "masked here"
                               : "",
                     describeBatch(step));
}

Result<const GlobalBatch *> StepData::batchOf(int64_t step) {
  Batch &kept = batches_[step % 2];
  if (kept.step != step) {
    kept.step = step;
    kept.status = source_->batch(firstOf(step), kept.batch).at(fmt::format("step {}", step));
    kept.hasLabels = std::ranges::any_of(kept.batch.labels, [](int32_t label) { return label != kIgnoredLabel; });
  }
  if (!kept.status.isOk())
    return kept.status;
  return kept.hasLabels ? &std::as_const(kept.batch) : nullptr;
}

} // namespace mgc
