// The lists of all stages as the player reads them: what each step occupies, what it waits for, and how long it takes.
#pragma once

#include "plan/play/Solution.h"

namespace mgc::schedule {

// Meaning of the list: plan::ScheduleStep.
struct PlayStep {
  Step::Kind kind = Step::Kind::run;
  // run: itself, in the first iteration of its repeat.
  ScheduledTask task;
  int64_t microbatchStride = 0;
  // send, recv: the other stage.
  int64_t peer = -1;
  // Each run of a pair has its share of the pair's seconds.
  double seconds = 0;
  // Distances to earlier steps, counted with repeats unrolled.
  std::vector<int64_t> waits;
  // run: groups of stages that come together one after the other before the run starts.
  std::vector<int64_t> meetings;
  bool isOfGradients() const { return kind == Step::Kind::run && task.kind == TaskKind::gradients; }
  bool isOnCompute() const { return kind == Step::Kind::run && !isOfGradients(); }
  bool isSecondOfPair() const { return kind == Step::Kind::run && task.paired; }
};

struct PlayList {
  std::vector<PlayStep> steps;
  std::vector<plan::Repeat> repeats;
};

struct PlayLists {
  std::vector<PlayList> stages;
  // Stages that meet, by number of the group.
  std::vector<std::vector<int64_t>> groups;
};

// The list, cut in its repeats and the parts between them.
std::vector<plan::Repeat> partsOf(const PlayList &list);

} // namespace mgc::schedule
