// How sequences become samples of equal length, in the order in which training reads them: the three indices of
// Megatron-LM's GPTDataset, to the element.
//   in:  the lengths of the sequences of a split, the length of a sample, how many are needed, a seed
//   out: documents   the split's sequences, once for every epoch, shuffled
//        boundaries  sample i is the tokens from boundary i on to boundary i + 1: place in `documents`, offset there
//        order       the i-th sample that training reads is sample order[i]
//
//   lengths 3 5, 2 epochs, samples of 4 and one more token to predict, documents shuffled to 1 0 0 1
//     tokens      B B B B B A A A A A A B B B B B
//     boundaries  (0, 0)  (0, 4)  (2, 0)  (3, 1)       neighbours share a token: the last of one begins the next
//
// The last epoch is shuffled by itself where fewer than 0.8 of its samples are needed.
#pragma once

#include "runtime/data/indexed/SplitBounds.h"
#include "runtime/data/indexed/UnalignedArray.h"
#include "runtime/random/Seed.h"

#include <memory>

namespace mgc {

struct SampleCut {
  int64_t length = 0;        // tokens of a sample
  bool readsNext = true;     // reads the next token too, to be predicted
  bool keepsPartial = false; // the last sample may have fewer
  uint32_t seed = kDefaultSeed;
  std::optional<int64_t> samples = {}; // samples that are needed; none: one epoch

  int64_t extra() const { return readsNext ? 1 : 0; }
  int64_t reads() const { return length + extra(); }
};

struct SampleCounts {
  int64_t tokens = 0; // tokens of an epoch
  int64_t epochs = 1, samples = 0;
  std::optional<int64_t> beforeLast; // samples before the last epoch, where that is shuffled by itself
};
// An error where the epochs have not a single sample. `where`: of messages.
Result<SampleCounts> countSamples(int64_t tokens, const SampleCut &cut, std::string_view where);

struct SampleBoundary {
  int32_t document = 0, offset = 0;
};

// Arrays in memory of their own, or in a file that is mapped.
struct GptIndex {
  SampleCounts counts;
  UnalignedArray<int32_t> documents;         // [epochs * sequences]
  UnalignedArray<SampleBoundary> boundaries; // [samples + 1]
  UnalignedArray<uint32_t> order;            // [samples]
  std::shared_ptr<const void> memory;
};

Result<GptIndex> buildGptIndex(const UnalignedArray<int32_t> &lengths, SequenceRange range, const SampleCut &cut,
                               std::string_view where);

// The same, from a file in the folder `cache` where an equal one was built before; else built, and kept there. An empty
// `cache` keeps nothing. The name of the file follows from all that the index depends on: `digestOfLengths` too.
Result<GptIndex> cachedGptIndex(const UnalignedArray<int32_t> &lengths, uint64_t digestOfLengths, SequenceRange range,
                                const SampleCut &cut, std::string_view where, const std::string &cache);

} // namespace mgc
