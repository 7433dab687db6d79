// The values that a search of layouts tries of an option (LayoutOption::searched). In: the model, the number of devices, and the options
// that are chosen already, which stand before it in the table. Out: values in ascending order, of which resolveLayout may still refuse
// some; kNotGiven: the option is not given.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::frontend {

inline constexpr int64_t kNotGiven = 0;

struct SearchSpace {
  const ModelDescription &model;
  const Supported &supported;
  int64_t devices = 1, globalBatchSize = 1, sequenceLength = 1;
  bool onlyOpen = false; // options that are kAuto are searched; else those that are not given

  // Data ranks, where the others are chosen; 0: devices cannot be shared out so.
  int64_t dataRanks(const LayoutOptions &chosen) const;
};

std::vector<int64_t> searchedTensor(const SearchSpace &space, const LayoutOptions &chosen);
std::vector<int64_t> searchedContext(const SearchSpace &space, const LayoutOptions &chosen);
std::vector<int64_t> searchedExperts(const SearchSpace &space, const LayoutOptions &chosen);
std::vector<int64_t> searchedExpertTensor(const SearchSpace &space, const LayoutOptions &chosen);
std::vector<int64_t> searchedStages(const SearchSpace &space, const LayoutOptions &chosen);
std::vector<int64_t> searchedChunks(const SearchSpace &space, const LayoutOptions &chosen);
std::vector<int64_t> searchedMicrobatch(const SearchSpace &space, const LayoutOptions &chosen);
std::vector<int64_t> searchedLevel(const SearchSpace &space, const LayoutOptions &chosen);
std::vector<std::string> searchedSchedules(const SearchSpace &space, const LayoutOptions &chosen);

// Where --memory chooses: its choices of which one takes least time, but for little, whatever it keeps; else the options themselves.
std::vector<LayoutOptions> fastestChoices(LayoutOptions options);

} // namespace mgc::frontend
