// A policy for each layer of a pipeline, so that every stage fits into its memory and the step is shortest. In: what each policy
// of a layer keeps and takes. Out: how many layers have which policy. No byte is rounded, and no choice is greedy: reference
// solutions by exhaustive search are the same (test/compiler/assemble/budget/BudgetTest.cpp).
//
// Bytes of a stage: the largest frame, and the most that lives at one time of what chunks keep: slots x what layers of a chunk keep
// of a microbatch, or where chunks share slots these x the most that one keeps. So for each bound of frames, and of shared slots,
// that some policies have, layers are independent: those of a chunk have a frontier of (bytes, seconds), of which a stage takes
// what fits.
//
// A step is the longest path of tasks, and gets no shorter when a task takes longer. So every stage has some vector of seconds, of
// its chunks' tasks, that no other is below of. Of these all are tried, best bound first.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <vector>

namespace mgc::budget {

// Seconds of a microbatch by task: forward; backward or its first half; its second half.
using Seconds = std::array<double, 3>;
inline double sumOf(const Seconds &seconds) { return seconds[0] + seconds[1] + seconds[2]; }

// A policy of one layer: bytes that it keeps of a microbatch from forward to backward, and from a backward's first half to its second;
// bytes while a function runs, of forwards those that have a frame of their own.
struct Option {
  int64_t kept = 0, split = 0;
  int64_t frame = 0, forwardFrame = 0;
  Seconds seconds = {};
  bool operator==(const Option &) const = default;
};

struct Layers { // equal ones
  int64_t count = 0;
  std::vector<Option> options;
  bool operator==(const Layers &) const = default;
};

struct ChunkLayers {
  std::vector<Layers> layers;
  int64_t kept = 0, split = 0; // bytes of what has no choice
  Seconds seconds = {};        // likewise
  bool operator==(const ChunkLayers &) const = default;
};

// Slots that live at one time.
struct Moment {
  int64_t bytes = 0;                       // bytes of buffers that no policy changes
  std::vector<int64_t> kept, split;        // by chunk
  int64_t sharedKept = 0, sharedSplit = 0; // slots of all chunks together: as large as the largest
  bool operator==(const Moment &) const = default;
};

struct StageLayers {
  int64_t bytes = 0;                   // memory but for what lives from a task to another and frames
  int64_t frame = 0, forwardFrame = 0; // the largest of what has no choice
  std::vector<ChunkLayers> chunks;
  std::vector<std::vector<Moment>> ways; // in which buffers can be placed: all moments of each
  bool operator==(const StageLayers &) const = default;
};

struct StageChoice {
  std::vector<std::vector<std::vector<int64_t>>> counts; // [chunk][layers][option]
  std::vector<Seconds> seconds;                          // by chunk
  int64_t bytes = 0;                                     // bytes of the stage
};

// Bounds of the search in time: points of a chunk's frontier, sizes of a slot that chunks share, choices of a stage before those that
// others are below of are dropped, and behind.
struct Limits {
  size_t points = 256, slotSizes = 64, combined = 4096, choices = 1024;
  bool operator==(const Limits &) const = default;
};

// Choices of at most so many bytes of which none takes at least as long in every task as another; those of fewer seconds in all
// come first. None: nothing fits. isCut is set where there are too many, and some are left out.
std::vector<StageChoice> choicesOf(const StageLayers &stage, int64_t capacity, bool &isCut, const Limits &limits = {});
// Choices of the stages that were asked for last.
class KnownChoices {
public:
  std::vector<StageChoice> of(const StageLayers &stage, int64_t capacity, bool &isCut, const Limits &limits);

private:
  struct Known {
    StageLayers stage;
    int64_t capacity = 0;
    Limits limits;
    std::vector<StageChoice> choices;
    bool isCut = false;
  };
  std::list<Known> known_; // the last first
};
StageChoice smallest(const StageLayers &stage);

// One choice of each stage's: the least stepSeconds([stage][chunk]), which must not fall when a second rises.
struct Selection {
  std::vector<size_t> choices; // by stage
  double seconds = 0;
  double least = 0; // no selection takes less: less than `seconds` where not all that could be better was tried
};
Selection select(const std::vector<std::vector<StageChoice>> &stages,
                 const std::function<double(const std::vector<std::vector<Seconds>> &)> &stepSeconds,
                 int64_t mostTried);

} // namespace mgc::budget
