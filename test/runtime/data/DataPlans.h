// Plans of which data sources read the sizes alone, and the batch or the error that a file gives.
#pragma once

#include "runtime/data/Data.h"
#include "test/runtime/TempDir.h"

namespace mgc::test {

// One sample a step. `packed`: it reads where documents begin.
inline plan::Plan planOfData(int64_t length, int64_t vocabulary, bool packed) {
  plan::Plan plan;
  plan.globalBatchSize = plan.microBatchSize = plan.microbatches = 1;
  plan.sequenceLength = length, plan.vocabulary = vocabulary;
  plan.stages.resize(1);
  if (packed)
    plan.stages[0].inputs.push_back({.kind = plan::Input::Kind::documentStarts});
  return plan;
}

inline GlobalBatch batchOf(Result<std::unique_ptr<DataSource>> data, const plan::Plan &plan, int64_t step = 0) {
  EXPECT_TRUE(isOk(data));
  GlobalBatch batch = GlobalBatch::create(plan).take();
  if (data.isOk())
    EXPECT_TRUE(isOk((*data)->batch(step * plan.globalBatchSize, batch)));
  return batch;
}
inline GlobalBatch batchOf(const std::string &path, const plan::Plan &plan, const DataOptions &options = {}) {
  return batchOf(openData(path, plan, 1, options), plan);
}

// "": none.
inline std::string openingError(const std::string &path, const plan::Plan &plan, const DataOptions &options = {}) {
  const Result<std::unique_ptr<DataSource>> data = openData(path, plan, 1, options);
  return data.isOk() ? "" : data.status().message();
}
// The same without the path, with which it begins.
inline std::string errorOf(const std::string &path, const plan::Plan &plan, const DataOptions &options = {}) {
  const std::string error = openingError(path, plan, options);
  EXPECT_TRUE(error.empty() || error.starts_with(path + ": ")) << error;
  return error.empty() ? error : error.substr(path.size() + 2);
}

} // namespace mgc::test
