// Samples of indexed files (indexed/GptSamples.h) -> global batches: what --data-path trains on.
#pragma once

#include "runtime/data/Data.h"
#include "runtime/data/SampleForm.h"
#include "runtime/data/indexed/GptSamples.h"
#include "runtime/data/indexed/SampleSchedule.h"

namespace mgc {

// How samples of the plan are cut from the files.
SampleCut sampleCutOf(const SampleForm &form, uint64_t seed, std::optional<int64_t> samples);

// Step i reads the samples from i * global batch on, in the order of `corpus.schedule`; behind the last one the first again.
std::unique_ptr<DataSource> makeIndexedData(std::unique_ptr<SampleSource> samples, const plan::Plan &plan,
                                            const SampleForm &form, const CorpusOptions &corpus);

} // namespace mgc
