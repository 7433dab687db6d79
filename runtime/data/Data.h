// Training data -> the global batch of a step. A batch depends on the file, the seed, the number of its first sample, the
// batch size and the sequence length, never on the layout.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/Status.h"
#include "runtime/data/Documents.h"
#include "runtime/data/Masking.h"
#include "runtime/data/chat/Conversation.h"
#include "runtime/data/indexed/GptSamples.h"
#include "runtime/data/indexed/SampleSchedule.h"
#include "runtime/tokenizers/Tokenizer.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mgc {

inline constexpr int32_t kIgnoredLabel = -100; // a position without a loss

// [globalBatchSize, sequenceLength], row-major: the samples `first`, first + 1, .. of a training. Labels are those of
// the plan's objective: causal: labels[i] follows tokens[i]; masked: labels[i] is the token that stood at i. Fields
// that the plan does not read are empty.
struct GlobalBatch {
  static Result<GlobalBatch> create(const plan::Plan &plan); // an error when there is not so much memory
  int64_t first = 0;
  std::vector<int32_t> tokens, labels;
  std::vector<int32_t> starts;      // where in its sequence each token's document begins
  std::vector<int32_t> types, ends; // by token: its type, and the place after the end of its document
  // [globalBatchSize, encoderLength], of the plan of a model with an encoder: what that reads, where `tokens` are the decoder's,
  // and the place where the sample's padding begins.
  std::vector<int32_t> encoderTokens, encoderEnds;
  // Images, of a plan whose encoder reads them, in the place of encoderTokens: pixels [globalBatchSize, channels, height,
  // width], zeros of a sample without an image; imagePlaces [globalBatchSize, sequenceLength] the encoder's position that stands at
  // each of the decoder's, imageSources [globalBatchSize, encoderLength] the inverse. -1: none.
  std::vector<float> pixels;
  std::vector<int32_t> imagePlaces, imageSources;
};

class TokenizedLines;

class DataSource {
public:
  virtual ~DataSource() = default;
  // The batch of the samples `first`, first + 1, .., numbered from 0 since training began. Numbers go on past the end of the data:
  // the next epoch, or the first samples again.
  virtual Status batch(int64_t first, GlobalBatch &out) = 0;
  virtual std::string describe() const = 0; // "corpus.txt: 1234 samples of 128 tokens"
  // Names the data of that batch, so that they can be found in the files: "corpus: sequence 12, tokens 30 to 94; .. and 14 more".
  virtual std::string describeBatch(int64_t first) = 0;
  // How often so many samples have each of the data's; none: the data have no end.
  virtual std::optional<double> epochsOf(int64_t) const { return std::nullopt; }
  // Facts and hashes by which a training that goes on knows its data again, whatever their files are called, each with the name of
  // its subject. Empty: describe() is all there is.
  using Facts = std::vector<std::pair<std::string, std::string>>;
  const Facts &identity() const { return identity_; }
  void identify(std::string subject, std::string fact) { identity_.emplace_back(std::move(subject), std::move(fact)); }
  // describe(), and the chat template of conversations: for people alone, since files move.
  std::string summary() const { return describe() + (chatTemplate_.empty() ? "" : "; by " + chatTemplate_); }
  void setChatTemplate(std::string name, std::string jinja) {
    chatTemplate_ = std::move(name), jinja_ = std::move(jinja);
  }
  const std::string &jinja() const { return jinja_; } // see ChatTemplate
  // Another source is read through this one.
  void inherit(const DataSource &source) {
    identity_ = source.identity_, chatTemplate_ = source.chatTemplate_, jinja_ = source.jinja_;
  }

private:
  Facts identity_;
  std::string chatTemplate_; // "the chat template of DIR"; empty: there is none
  std::string jinja_;
};

// How a .jsonl is read.
struct DataReading {
  const std::atomic<bool> *stop = nullptr; // once true, it is not read to its end: an error; null: never
  TokenizedLines *texts = nullptr;         // keeps the tokens for a later open of the file; null: there is none
};

// Lines of a .jsonl that are conversations.
struct ChatOptions {
  bool areRead = false;          // false: lines are texts
  std::string templateFile = {}; // see ChatTemplateOptions
  std::string variables = {};    // variables of the template, in the place of its own: a JSON object; empty: none
  ChatForm form = {};
  std::string cache = {}; // folder that keeps texts; empty: none
};

struct DataOptions {
  std::string binType = {};   // type of a .bin file, see TokenFiles.h
  bool textBytes = false;     // read a text as a token per byte, whatever the model's tokens are
  std::string tokenizer = {}; // the file of one that the model's weights came with; empty: none
  DocumentOptions documents = {};
  MaskingOptions masking = {};
  TokenizerFiles tokenizerFiles = {}; // for .jsonl; without a type and a model: none
  ChatOptions chats = {};
  bool hasTokenizer() const { return !tokenizerFiles.type.empty() || !tokenizerFiles.model.empty(); }
  int64_t samples = 0; // samples that will be read of a .jsonl of texts; 0: an epoch
  DataReading reading = {};
};

// The error of data whose reading DataReading::stop has ended.
Status stoppedWhileReading(const std::string &path);

// 256 bytes and what models of bytes have besides: ends, paddings, ByT5's 125 sentinels.
inline constexpr int64_t kLargestByteVocabulary = 384;

// By the ending of `path`:
//   .safetensors  whole batches, see BatchData.h
//   .npy          integers, 1-D: one stream of tokens; 2-D: one stream per row
//   .bin          one stream of raw little-endian tokens, of the type that elementTypeOf (TokenFiles.h) finds
//   .jsonl        texts or conversations, with a tokenizer; see TextLines.h and ChatData.h
//   .json .idx    refused
//   otherwise     UTF-8 text, one stream, a token per byte; refused for models that have a tokenizer
// The plan of a model with an encoder takes .safetensors alone, see PairData.h and ImageData.h.
// A stream is cut into samples (SampleForm.h): of a causal plan sequenceLength + 1 tokens, each beginning on the last token of
// the one before; of a masked plan sequenceLength tokens, less those around it, some of which are masked. The order of the
// samples is drawn anew for each epoch from the seed.
Result<std::unique_ptr<DataSource>> openData(const std::string &path, const plan::Plan &plan, uint64_t seed,
                                             const DataOptions &options = {});

// Indexed files as Megatron-LM reads them: --data-path and what belongs to it.
struct CorpusOptions {
  CorpusFiles files;
  std::string cache = {};               // folder that keeps indices; empty: none
  std::optional<int64_t> padToken = {}; // without a loss where it stands in the data
  bool separatesSequences = false;      // documents are the sequences of the files, not what ends at a token
  SampleOrderKind schedule = SampleOrderKind::single;
  bool noSharding = false; // for SampleOrderKind::cyclic
};
struct SplitRequest {
  Split split = Split::train;
  std::optional<int64_t> samples = {}; // samples that will be read; none: one epoch
  bool keepsPartial = false;           // the last sample may be shorter than a sequence: its rest has no loss
};
// One split of the files; null where they have no such split. The same request gives the same samples in every layout, unless
// the schedule is cyclic.
Result<std::unique_ptr<DataSource>> openCorpus(const CorpusOptions &corpus, const SplitRequest &request,
                                               const plan::Plan &plan, uint64_t seed, const DataOptions &options = {});

// Made-up tokens that a model can learn: mostly a fixed function of the token before, sometimes a random one.
// Plans that read documents get documents of different lengths. Only the options documents and masking count.
Result<std::unique_ptr<DataSource>> makeMockData(const plan::Plan &plan, uint64_t seed,
                                                 const DataOptions &options = {});

} // namespace mgc
