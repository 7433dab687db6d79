#include "runtime/data/Data.h"

#include "runtime/base/Checksum.h"
#include "runtime/base/Utf8.h"
#include "runtime/data/BatchData.h"
#include "runtime/data/ChatData.h"
#include "runtime/data/ImageData.h"
#include "runtime/data/IndexedData.h"
#include "runtime/data/MockData.h"
#include "runtime/data/PairData.h"
#include "runtime/data/StreamData.h"
#include "runtime/data/TextLines.h"
#include "runtime/data/TokenFiles.h"
#include "runtime/data/indexed/RandomOrder.h"
#include "runtime/io/Npy.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace mgc {

using plan::Plan;

namespace {

using Opened = Result<std::unique_ptr<DataSource>>;

// The bytes of a text are tokens of a model of bytes alone; another model would learn from them without an error.
Status verifyBytesAreTokens(const std::string &path, const BatchShape &shape, const DataOptions &options) {
  constexpr std::string_view kExpected =
      "expected token ids that the model's tokenizer made, as .npy, .bin or .safetensors (docs/data.md); "
      "--text-bytes trains on the bytes all the same";
  if (options.textBytes)
    return Status::ok();
  if (shape.vocabulary > kLargestByteVocabulary)
    return errorf("{}: a text is read as a token per byte, but the model's vocabulary of {} tokens is a "
                  "tokenizer's; {}",
                  path, shape.vocabulary, kExpected);
  if (!options.tokenizer.empty())
    return errorf("{}: a text is read as a token per byte, but the tokens of --load are those of {}; {}", path,
                  options.tokenizer, kExpected);
  return Status::ok();
}

Opened openText(const std::string &path, const StreamOptions &stream, const DataOptions &options) {
  MGC_TRY(verifyBytesAreTokens(path, stream.shape, options));
  MGC_ASSIGN(file, MappedFile::open(path));
  if (std::optional<size_t> at = firstInvalidUtf8(file.text()))
    return errorf("{}: byte {:#04x} at position {} is not UTF-8; known endings are .safetensors, .npy and .bin, all "
                  "else is read as text (compressed files and tables must be unpacked first)",
                  path, static_cast<unsigned char>(file.text()[*at]), *at);
  MGC_ASSIGN(tokens, TensorFile::open(file, {ElementType::U8, {int64_t(file.bytes().size())}, file.bytes()}));
  return makeStreamData({path, std::move(tokens), ValueRange::tokens(stream.shape.vocabulary)}, 1, stream);
}

Opened openNpy(const std::string &path, const StreamOptions &stream) {
  MGC_ASSIGN(npy, Npy::open(path));
  const TensorView &tensor = npy.tensor();
  int64_t rows = tensor.shape.size() == 2 ? tensor.shape[0] : 1;
  MGC_ASSIGN(tokens, TensorFile::open(npy.file(), tensor));
  return makeStreamData({path, std::move(tokens), ValueRange::tokens(stream.shape.vocabulary)}, rows, stream);
}

Opened openBin(const std::string &path, const StreamOptions &stream, const DataOptions &options) {
  MGC_ASSIGN(type, elementTypeOf({path, options.binType, stream.shape.vocabulary}));
  MGC_ASSIGN(file, MappedFile::open(path));
  int64_t size = int64_t(file.bytes().size()), each = sizeInBytes(type);
  if (size % each != 0)
    return errorf("{}: has {} bytes, expected a multiple of {}: tokens are read as {}", path, size, each,
                  toString(type));
  MGC_ASSIGN(tokens, TensorFile::open(file, {type, {size / each}, file.bytes()}));
  std::string name = fmt::format("{} ({})", path, toString(type)); // a wrong type may read well
  return makeStreamData({std::move(name), std::move(tokens), ValueRange::tokens(stream.shape.vocabulary)}, 1, stream);
}

// --- Documents in sequences -------------------------------------------------------------------------------------

// Another source, where documents begin and end.
class PackedData : public DataSource {
public:
  PackedData(std::unique_ptr<DataSource> tokens, const Plan &plan, const DocumentOptions &documents, bool knowsStarts)
      : tokens_(std::move(tokens)), length_(plan.sequenceLength), knowsStarts_(knowsStarts),
        areSeparate_(plan::reads(plan, plan::separatesDocuments)), documents_(documents) {
    inherit(*tokens_);
  }

  Status batch(int64_t first, GlobalBatch &out) override {
    MGC_TRY(tokens_->batch(first, out));
    if (!out.starts.empty() && documents_.endToken && !knowsStarts_)
      findDocuments(out.tokens, length_, *documents_.endToken, out.starts);
    if (documents_.masksEnds)
      maskEnds(out.tokens, length_, documents_.endToken, out.starts, kIgnoredLabel, out.labels);
    if (!out.ends.empty() && areSeparate_)
      findEnds(out.starts, length_, out.ends);
    return Status::ok();
  }
  std::string describe() const override {
    return tokens_->describe() +
           (documents_.endToken ? fmt::format(", documents end at token {}", *documents_.endToken) : "");
  }
  std::string describeBatch(int64_t first) override { return tokens_->describeBatch(first); }
  std::optional<double> epochsOf(int64_t samples) const override { return tokens_->epochsOf(samples); }

private:
  std::unique_ptr<DataSource> tokens_;
  int64_t length_;
  bool knowsStarts_; // the other source does
  bool areSeparate_; // for attention; else a sequence is one document for it
  DocumentOptions documents_;
};

// Another source, whose tokens are masked.
class MaskedData : public DataSource {
public:
  MaskedData(std::unique_ptr<DataSource> tokens, const BatchShape &shape, TokenMasker masker)
      : tokens_(std::move(tokens)), shape_(shape), masker_(std::move(masker)) {
    inherit(*tokens_);
  }

  Status batch(int64_t first, GlobalBatch &out) override {
    MGC_TRY(tokens_->batch(first, out));
    const auto length = static_cast<size_t>(shape_.length);
    for (int64_t i = 0; i < shape_.samples; ++i) {
      const size_t begin = static_cast<size_t>(i) * length;
      masker_.mask(static_cast<uint64_t>(first + i), std::span(out.tokens).subspan(begin, length),
                   std::span(out.labels).subspan(begin, length));
    }
    return Status::ok();
  }
  std::string describe() const override { return tokens_->describe() + ", " + masker_.describe(); }
  std::string describeBatch(int64_t first) override { return tokens_->describeBatch(first); }
  std::optional<double> epochsOf(int64_t samples) const override { return tokens_->epochsOf(samples); }

private:
  std::unique_ptr<DataSource> tokens_;
  BatchShape shape_;
  TokenMasker masker_;
};

} // namespace

Result<GlobalBatch> GlobalBatch::create(const Plan &plan) {
  GlobalBatch batch;
  try {
    batch.tokens.resize(plan.globalBatchSize * plan.sequenceLength);
    batch.labels.resize(batch.tokens.size());
    batch.starts.resize(plan::readsDocuments(plan) ? batch.tokens.size() : 0);
    batch.types.resize(plan::reads(plan, plan::isTokenType) ? batch.tokens.size() : 0);
    batch.ends.resize(plan::reads(plan, plan::isEnd) ? batch.tokens.size() : 0);
    batch.encoderEnds.resize(plan.globalBatchSize * plan.encoderLength);
    if (plan::readsImages(plan)) {
      batch.pixels.resize(plan.globalBatchSize * plan.images.pixels());
      batch.imagePlaces.resize(batch.tokens.size());
      batch.imageSources.resize(batch.encoderEnds.size());
    } else {
      batch.encoderTokens.resize(batch.encoderEnds.size());
    }
  } catch (const std::bad_alloc &) {
    return errorf("a global batch of {} samples of {} tokens does not fit the memory; a smaller --gbs would",
                  plan.globalBatchSize, plan.sequenceLength + plan.encoderLength);
  }
  return batch;
}

struct SourceFacts {
  bool hasLabels = true;    // else labels are the tokens that may be masked
  bool knowsStarts = false; // the data says where documents start; else they end at a token
};

// The source as the plan and the options want it. Documents are found before masks hide their ends.
static std::unique_ptr<DataSource> finished(std::unique_ptr<DataSource> data, const Plan &plan, uint64_t seed,
                                            const DataOptions &options, const SourceFacts &facts = {}) {
  const DocumentOptions &documents = options.documents;
  if (documents.endToken || documents.masksEnds || plan::reads(plan, plan::isEnd))
    data = std::make_unique<PackedData>(std::move(data), plan, documents, facts.knowsStarts);
  if (!facts.hasLabels) {
    TokenMasker masker(options.masking, documents.endToken, plan.vocabulary, seed);
    data = std::make_unique<MaskedData>(std::move(data), BatchShape(plan), std::move(masker));
  }
  return data;
}

static bool isCausal(const Plan &plan) { return plan.objective == plan::Objective::causal; }

static bool isText(const std::string &path) {
  return std::ranges::none_of(std::initializer_list<std::string_view>{".safetensors", ".npy", ".bin"},
                              [&](std::string_view ending) { return path.ends_with(ending); });
}

static bool hasLines(const std::string &path, bool areChats) {
  return path.ends_with(".jsonl") || path.ends_with(".jsonl.gz") || path.ends_with(".jsonl.zst") ||
         (areChats && path.ends_with(".parquet"));
}

// Files that people have, which would be read as text.
static Status verifyFormat(const std::string &path) {
  std::string ending = std::filesystem::path(path).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  if (ending == ".jsonl" || ending == ".json" || hasLines(path, true))
    return errorf("{}: is JSON, whose braces and field names would become tokens; expected --tokenizer-model FILE too, "
                  "which reads "
                  "the texts of a .jsonl, or the token ids that mgc-data preprocess makes of it (docs/data.md)",
                  path);
  if (ending == ".idx")
    return errorf("{}: is the index of a data set, expected its tokens: {}", path,
                  std::filesystem::path(path).replace_extension(".bin").string());
  return Status::ok();
}

static Status verifyShape(const BatchShape &shape) {
  if (shape.samples < 1 || shape.length < 1 || shape.vocabulary < 1)
    return errorf("the plan has global batch size {}, sequence length {} and vocabulary {}, expected at least 1",
                  shape.samples, shape.length, shape.vocabulary);
  return Status::ok();
}

static Status verifyReadsTokensAlone(const std::string &path, const Plan &plan) {
  if (plan::readsImages(plan))
    return errorf("{}: holds tokens alone, but the model reads images; expected .safetensors with input_ids, labels "
                  "and pixel_values (docs/data.md)",
                  path);
  if (plan.encoderLength > 0)
    return errorf("{}: holds one stream of tokens, but the model reads two sequences, one with its encoder; expected "
                  ".safetensors with input_ids and labels of each sample (docs/data.md): corrupting spans of a stream, "
                  "as T5 was first trained, is not there",
                  path);
  return Status::ok();
}

Status stoppedWhileReading(const std::string &path) {
  return errorf("{}: a request to end came while its lines were tokenized", path);
}

// The source, known by the tokenizer too that has made its tokens.
static Opened identified(Opened opened, const DataOptions &options) {
  MGC_ASSIGN(data, std::move(opened));
  MGC_ASSIGN(contents, contentsOf(options.tokenizerFiles));
  std::string text = options.tokenizerFiles.type;
  for (const TokenizerContent &content : contents)
    text += fmt::format(" {} {}", content.bytes, content.checksum);
  data->identify("contents of the tokenizer", fmt::format("the hash {:016x}", hashName(text)));
  return data;
}

// The source, known by the contents of its file: of a large one a sample, for a training may read a little of it alone.
static Opened identified(Opened opened, const FileReader &file) {
  constexpr int64_t kPiece = 1 << 16, kPieces = 1024;
  MGC_ASSIGN(data, std::move(opened));
  const int64_t bytes = file.size();
  const bool isWhole = bytes <= kPiece * kPieces;
  Checksum checksum;
  std::vector<std::byte> piece(kPiece);
  for (int64_t i = 0; i < (isWhole ? (bytes + kPiece - 1) / kPiece : kPieces); ++i) {
    const int64_t at = isWhole ? i * kPiece : (bytes - kPiece) / (kPieces - 1) * i;
    const std::span part = std::span(piece).first(static_cast<size_t>(std::min(kPiece, bytes - at)));
    MGC_TRY(file.read(at, part));
    checksum.add(part);
  }
  data->identify("contents of --data",
                 fmt::format("{} bytes with the checksum {}{}", bytes, checksum.text(), isWhole ? "" : " of a sample"));
  return data;
}

// A .jsonl through its tokenizer.
static Opened openLines(const std::string &path, const Plan &plan, uint64_t seed, const DataOptions &options) {
  MGC_TRY(verifyReadsTokensAlone(path, plan));
  MGC_ASSIGN(tokenizer, openTokenizer(options.tokenizerFiles));
  if (tokenizer->vocabulary() > plan.vocabulary)
    return errorf("{}: has {} tokens, but the model's vocabulary has {}; expected the model's tokenizer",
                  options.tokenizerFiles.model.empty() ? "--tokenizer-type " + options.tokenizerFiles.type
                                                       : "--tokenizer-model " + options.tokenizerFiles.model,
                  tokenizer->vocabulary(), plan.vocabulary);
  if (options.chats.areRead) {
    MGC_TRY(verifyDocuments(options.documents, plan, /*saysWhereTheyBegin=*/true));
    MGC_ASSIGN(chats, openChats(path, plan, seed, *tokenizer, options));
    return identified(finished(std::move(chats), plan, seed, options, {.knowsStarts = true}), options);
  }
  DataOptions reading = options; // the tokenizer's end token is put behind each text
  if (!reading.documents.endToken && (plan::readsDocuments(plan) || reading.documents.masksEnds))
    reading.documents.endToken = tokenizer->endToken();
  MGC_TRY(verifyDocuments(reading.documents, plan, /*saysWhereTheyBegin=*/false));
  TokenizedLines own;
  MGC_ASSIGN(lines, (options.reading.texts ? *options.reading.texts : own)
                        .of(path, options.tokenizerFiles, tokenizer->endToken().has_value(), options.reading.stop));
  CorpusOptions corpus;
  corpus.files.perSplit[static_cast<size_t>(Split::train)].prefixes = {path};
  corpus.files.opened = std::move(lines);
  const SplitRequest request{Split::train, options.samples > 0 ? std::optional(options.samples) : std::nullopt};
  return identified(identified(openCorpus(corpus, request, plan, seed, reading), options),
                    corpus.files.opened->tokensFile());
}

Opened openData(const std::string &path, const Plan &plan, uint64_t seed, const DataOptions &options) {
  BatchShape shape(plan);
  MGC_TRY(verifyShape(shape));
  if (!options.binType.empty() && !path.ends_with(".bin"))
    return errorf("{}: --bin-type {} is for files that end in .bin", path, options.binType);
  if (options.textBytes && !isText(path))
    return errorf("{}: --text-bytes is for text, which this ending is not of", path);
  if (options.hasTokenizer() && !hasLines(path, options.chats.areRead))
    return errorf(
        "{}: --tokenizer-model is for files that end in .jsonl, .jsonl.gz, .jsonl.zst or, with --sft, .parquet", path);
  if (options.chats.areRead && !options.hasTokenizer())
    return errorf("{}: --sft needs --tokenizer-model FILE", path);
  if (options.hasTokenizer())
    return openLines(path, plan, seed, options);
  MGC_TRY(verifyFormat(path));
  if (path.ends_with(".safetensors")) {
    MGC_ASSIGN(opened, openBatches(path, plan, options));
    MGC_ASSIGN(file, FileReader::open(path));
    return identified(finished(std::move(opened.data), plan, seed, options, {.hasLabels = opened.hasLabels}), file);
  }
  MGC_TRY(verifyReadsTokensAlone(path, plan));
  MGC_TRY(verifyDocuments(options.documents, plan, false));
  MGC_TRY(verifyMasking(options.masking, plan, /*isStream=*/true));
  const DocumentRule rule{options.documents.endToken, plan::readsDocuments(plan) ? plan.longestDocument : 0};
  const StreamOptions stream{shape, SampleForm(plan, options.masking), rule, seed};
  MGC_ASSIGN(data, path.ends_with(".npy")   ? openNpy(path, stream)
                   : path.ends_with(".bin") ? openBin(path, stream, options)
                                            : openText(path, stream, options));
  MGC_ASSIGN(file, FileReader::open(path));
  return identified(finished(std::move(data), plan, seed, options, {.hasLabels = isCausal(plan)}), file);
}

Opened openCorpus(const CorpusOptions &corpus, const SplitRequest &request, const Plan &plan, uint64_t seed,
                  const DataOptions &options) {
  MGC_TRY(verifyShape(BatchShape(plan)));
  MGC_TRY(verifyReadsTokensAlone(corpus.files.prefixes().front(), plan));
  MGC_TRY(verifyDocuments(options.documents, plan, corpus.separatesSequences));
  MGC_TRY(verifyMasking(options.masking, plan, /*isStream=*/true));
  if (seed > UINT32_MAX)
    return errorf("--seed {}: the order of indexed files is drawn from 32 bits, expected at most {}", seed, UINT32_MAX);
  const SampleForm form(plan, options.masking);
  SampleOptions samples{sampleCutOf(form, seed, request.samples), plan.vocabulary, corpus.cache};
  samples.cut.keepsPartial = request.keepsPartial;
  MGC_ASSIGN(source, openSplit(corpus.files, request.split, samples));
  if (!source)
    return std::unique_ptr<DataSource>();
  if (corpus.schedule == SampleOrderKind::cyclic && source->samples() > kMostPermuted)
    return errorf("--dataloader-type cyclic: found {} samples, expected at most {}, whose order is Megatron-LM's; "
                  "--dataloader-type single takes all",
                  source->samples(), kMostPermuted);
  return finished(makeIndexedData(std::move(source), plan, form, corpus), plan, seed, options,
                  {.hasLabels = isCausal(plan), .knowsStarts = corpus.separatesSequences});
}

// Made-up tokens have no tokenizer that names the one that masks: it is the last.
Opened makeMockData(const Plan &plan, uint64_t seed, const DataOptions &given) {
  DataOptions options = given;
  if (plan.objective == plan::Objective::masked && !options.masking.maskToken)
    options.masking.maskToken = plan.vocabulary - 1;
  const DocumentOptions &documents = options.documents;
  MGC_TRY(verifyDocuments(documents, plan, plan::readsDocuments(plan)));
  MGC_TRY(verifyMasking(options.masking, plan, /*isStream=*/true));
  const BatchShape shape(plan);
  if (plan.encoderLength > 0)
    MGC_TRY(verifyNoDocuments(documents));
  if (shape.hasPairs)
    return makePairs(shape, seed);
  if (documents.endToken && plan.longestDocument > 0 && plan.longestDocument < shape.length)
    return errorf("--eod-token-id {}: made-up documents that end at a token may be longer than the {} tokens for "
                  "which the model has learned positions; expected none, so that their lengths are drawn",
                  *documents.endToken, plan.longestDocument);
  std::unique_ptr<DataSource> chain =
      makeTokenChain(shape, SampleForm(plan, options.masking), plan.longestDocument, seed);
  if (plan::readsImages(plan))
    return withMadeUpImages(std::move(chain), plan, seed);
  return finished(std::move(chain), plan, seed, options, {.hasLabels = isCausal(plan)});
}

} // namespace mgc
