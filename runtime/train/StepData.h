// StepData: what a run trains on, or is evaluated on.
//   in:  the options that name data
//   out: the batch of each step
#pragma once

#include "runtime/data/Data.h"
#include "runtime/train/TrainingStart.h"

namespace mgc {

class StepData {
public:
  struct Request {
    Split split = Split::train;
    int64_t steps = 0; // up to this one batches will be read
    // Samples that the data must have an order for: those of all steps of the training.
    int64_t samples = 0;
    plan::BatchSizes::Range from; // steps of the plan's batches; other plans read those before it
    DataReading reading = {};
  };
  // None: the run has no data of that split.
  static Result<std::optional<StepData>> open(const TrainingOptions &options, const TrainingStart &start,
                                              const plan::Plan &plan, const Request &request);

  const DataSource &source() const { return *source_; }
  // "corpus.txt: 1234 samples of 128 tokens; 100 steps of 16 are 1.30 epochs".
  std::string describe() const;
  std::string describeBatch(int64_t step) { return source_->describeBatch(firstOf(step)); }
  // Samples that the steps before this one have read since training began.
  int64_t firstOf(int64_t step) const {
    return request_.from.firstSample + (step - request_.from.firstStep) * request_.from.size;
  }
  // Read when it is first asked for; two steps are kept. Null: no label of it counts, so it has no loss. An error, with the step:
  // it cannot be read.
  Result<const GlobalBatch *> batchOf(int64_t step);
  // For people: a batch without a label, and what would have some.
  std::string describeUnlabelled(int64_t step);

private:
  struct Batch {
    int64_t step = -1;
    GlobalBatch batch;
    Status status;
    bool hasLabels = false;
  };

  std::unique_ptr<DataSource> source_;
  Request request_;
  bool isMasked_ = false;
  std::vector<Batch> batches_; // two, used alternately
};

} // namespace mgc
