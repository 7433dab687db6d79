#include "runtime/data/Data.h"

#include "runtime/base/Utf8.h"
#include "runtime/data/SampleOrder.h"
#include "runtime/data/TokenFiles.h"
#include "runtime/io/Npy.h"
#include "runtime/io/Safetensors.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cctype>
#include <filesystem>
#include <functional>

namespace mgc {

using plan::Plan;

namespace {

struct BatchShape {
  explicit BatchShape(const Plan &plan)
      : samples(plan.globalBatchSize), length(plan.sequenceLength), vocabulary(plan.vocabulary) {}
  int64_t samples, length, vocabulary;
};

bool hasDocuments(const GlobalBatch &batch) { return !batch.starts.empty(); }

Status verifyStep(int64_t step, const BatchShape &shape, const GlobalBatch &out) {
  assert(int64_t(out.tokens.size()) == shape.samples * shape.length &&
         out.labels.size() == out.tokens.size());
  int64_t end; // one past the last sample of the step
  if (step < 0 || step == INT64_MAX || __builtin_mul_overflow(step + 1, shape.samples, &end))
    return errorf("step {} does not exist, expected 0 or more and samples numbered within 63 bits", step);
  return Status::ok();
}

// Where the elements of a tensor lie in a file. Training reads them as it goes: a mapping would end the process
// when somebody truncates the file.
struct TensorFile {
  std::shared_ptr<const FileReader> file;
  int64_t offset = 0; // bytes
  ElementType type{};
  int64_t elements = 0;

  // `tensor` lies in `mapped`.
  static Result<TensorFile> open(const MappedFile &mapped, const TensorView &tensor) {
    MGC_ASSIGN(file, FileReader::open(mapped.path()));
    return TensorFile{std::make_shared<const FileReader>(std::move(file)),
                      tensor.data.data() - mapped.bytes().data(), tensor.type, tensor.elements()};
  }
  // At most kPiece elements.
  static constexpr int64_t kPiece = 2048;
  Status read(int64_t begin, int64_t count, int64_t *out) const {
    std::array<std::byte, kPiece * sizeof(int64_t)> bytes;
    const std::span<std::byte> part(bytes.data(), size_t(count * sizeInBytes(type)));
    MGC_TRY(file->read(offset + begin * sizeInBytes(type), part));
    convertToI64({type, {count}, part}, 0, count, out);
    return Status::ok();
  }
};

// Reads elements of a tensor in pieces and checks each: a token, or an ignored label where those may be.
class TokenReader {
public:
  TokenReader(std::string name, TensorFile tensor, int64_t vocabulary, bool ignoredAllowed = false)
      : name_(std::move(name)), tensor_(std::move(tensor)), vocabulary_(vocabulary),
        ignoredAllowed_(ignoredAllowed) {}

  int64_t size() const { return tensor_.elements; }
  const std::string &name() const { return name_; }

  // A function that is called with each token of a scan, besides the check that the token is allowed.
  using Visit = std::function<Status(int64_t position, int64_t token)>;

  Status read(int64_t begin, int64_t count, int32_t *out, const Visit &visit = nullptr) const {
    std::array<int64_t, TensorFile::kPiece> piece;
    for (int64_t done = 0; done < count; done += int64_t(piece.size())) {
      int64_t part = std::min(count - done, int64_t(piece.size()));
      MGC_TRY(tensor_.read(begin + done, part, piece.data()));
      for (int64_t i = 0; i < part; ++i) {
        if (!isAllowed(piece[i]))
          return outside(begin + done + i, piece[i]);
        if (visit)
          MGC_TRY(visit(begin + done + i, piece[i]));
        if (out)
          out[done + i] = int32_t(piece[i]);
      }
    }
    return Status::ok();
  }

  // A token that does not fit should show before training, not in step 5000. The scan reads only the
  // beginning of a large file; batches check the rest as they come.
  Status scan(const Visit &visit = nullptr) const {
    return read(0, std::min<int64_t>(size(), int64_t(1) << 28), nullptr, visit);
  }

private:
  bool isAllowed(int64_t value) const {
    return (value >= 0 && value < vocabulary_) || (ignoredAllowed_ && value == kIgnoredLabel);
  }
  Status outside(int64_t position, int64_t value) const {
    return errorf("{}: {} at position {}, expected {}0 to {}: the model's vocabulary has {} tokens", name_,
                  value, position, ignoredAllowed_ ? "-100 (ignored) or " : "", vocabulary_ - 1, vocabulary_);
  }
  std::string name_;
  TensorFile tensor_;
  int64_t vocabulary_;
  bool ignoredAllowed_;
};

// --- One or several streams of tokens, cut into samples ----------------------------------------------------

// The rule for samples that are packed documents.
struct DocumentRule {
  std::optional<int64_t> endToken;
  int64_t longest = 0; // document; 0: any length
};

class StreamData : public DataSource {
public:
  // `tokens` are `rows` streams of equal length.
  static Result<std::unique_ptr<DataSource>> make(TokenReader tokens, int64_t rows, const BatchShape &shape,
                                                  uint64_t seed, const DocumentRule &rule) {
    int64_t rowLength = rows > 0 ? tokens.size() / rows : 0;
    if (rowLength < shape.length + 1)
      return errorf("{}: has {} tokens{}, expected at least {}: sequence length {} and one more to predict",
                    tokens.name(), rowLength, rows > 1 ? " in a row" : "", shape.length + 1, shape.length);
    std::unique_ptr<StreamData> data(new StreamData(std::move(tokens), rows, shape, seed));
    MGC_TRY(data->scan(rule));
    return std::unique_ptr<DataSource>(std::move(data));
  }

  Status batch(int64_t step, GlobalBatch &out) override {
    MGC_TRY(verifyStep(step, shape_, out));
    for (int64_t i = 0; i < shape_.samples; ++i) {
      int64_t number = step * shape_.samples + i;
      int64_t sample = shuffledSample(seed_, number / samples_, number % samples_, samples_);
      int64_t begin = sample / perRow_ * rowLength_ + sample % perRow_ * shape_.length;
      MGC_TRY(tokens_.read(begin, shape_.length + 1, scratch_.data()));
      std::copy_n(scratch_.begin(), shape_.length, out.tokens.begin() + i * shape_.length);
      std::copy_n(scratch_.begin() + 1, shape_.length, out.labels.begin() + i * shape_.length);
    }
    return Status::ok();
  }

  std::string describe() const override {
    return fmt::format("{}: {} samples of {} tokens", tokens_.name(), samples_, shape_.length);
  }
  std::optional<double> epochsOf(int64_t steps) const override {
    return double(steps) * double(shape_.samples) / double(samples_);
  }

private:
  StreamData(TokenReader tokens, int64_t rows, const BatchShape &shape, uint64_t seed)
      : tokens_(std::move(tokens)), shape_(shape), seed_(seed), rowLength_(tokens_.size() / rows),
        perRow_((rowLength_ - 1) / shape.length), samples_(rows * perRow_),
        scratch_(size_t(shape.length) + 1) {}

  // Neither a wrong token nor a document that is too long should show in step 5000.
  Status scan(const DocumentRule &rule) const {
    if (!rule.endToken || rule.longest == 0)
      return tokens_.scan();
    int64_t length = 0; // so far, of the document in its sample
    return tokens_.scan([&](int64_t position, int64_t token) {
      const int64_t place = position % rowLength_;
      length = place % shape_.length == 0 ? 1 : length + 1;
      if (length > rule.longest && place / shape_.length < perRow_)
        return errorf("{}: token {}: the document has more than {} tokens, for which the model has learned "
                      "positions; expected shorter documents, each with token {} at its end",
                      tokens_.name(), position, rule.longest, *rule.endToken);
      length = token == *rule.endToken ? 0 : length;
      return Status::ok();
    });
  }

  TokenReader tokens_;
  BatchShape shape_;
  uint64_t seed_;
  int64_t rowLength_, perRow_, samples_;
  std::vector<int32_t> scratch_;
};

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
    return errorf("{}: a text is read as a token per byte, but the tokens of --weights are those of {}; {}",
                  path, options.tokenizer, kExpected);
  return Status::ok();
}

Opened openText(const std::string &path, const BatchShape &shape, uint64_t seed, const DataOptions &options,
                const DocumentRule &rule) {
  MGC_TRY(verifyBytesAreTokens(path, shape, options));
  MGC_ASSIGN(file, MappedFile::open(path));
  if (std::optional<size_t> at = firstInvalidUtf8(file.text()))
    return errorf(
        "{}: byte {:#04x} at position {} is not UTF-8; known endings are .safetensors, .npy and .bin, all "
        "else is read as text (compressed files and tables must be unpacked first)",
        path, static_cast<unsigned char>(file.text()[*at]), *at);
  MGC_ASSIGN(tokens, TensorFile::open(file, {ElementType::U8, {int64_t(file.bytes().size())}, file.bytes()}));
  return StreamData::make(TokenReader(path, std::move(tokens), shape.vocabulary), 1, shape, seed, rule);
}

Opened openNpy(const std::string &path, const BatchShape &shape, uint64_t seed, const DocumentRule &rule) {
  MGC_ASSIGN(npy, Npy::open(path));
  const TensorView &tensor = npy.tensor();
  int64_t rows = tensor.shape.size() == 2 ? tensor.shape[0] : 1;
  MGC_ASSIGN(tokens, TensorFile::open(npy.file(), tensor));
  return StreamData::make(TokenReader(path, std::move(tokens), shape.vocabulary), rows, shape, seed, rule);
}

Opened openBin(const std::string &path, const BatchShape &shape, uint64_t seed, const DataOptions &options,
               const DocumentRule &rule) {
  MGC_ASSIGN(type, elementTypeOf({path, options.binType, shape.vocabulary}));
  MGC_ASSIGN(file, MappedFile::open(path));
  int64_t size = int64_t(file.bytes().size()), each = sizeInBytes(type);
  if (size % each != 0)
    return errorf("{}: has {} bytes, expected a multiple of {}: tokens are read as {}", path, size, each,
                  toString(type));
  MGC_ASSIGN(tokens, TensorFile::open(file, {type, {size / each}, file.bytes()}));
  std::string name = fmt::format("{} ({})", path, toString(type)); // a wrong type may read well
  return StreamData::make(TokenReader(std::move(name), std::move(tokens), shape.vocabulary), 1, shape, seed,
                          rule);
}

// --- Documents in sequences -------------------------------------------------------------------------------------

// Tokens of another source, whose documents end at a token.
class PackedData : public DataSource {
public:
  PackedData(std::unique_ptr<DataSource> tokens, const BatchShape &shape, const DocumentOptions &documents)
      : tokens_(std::move(tokens)), shape_(shape), documents_(documents) {}

  Status batch(int64_t step, GlobalBatch &out) override {
    MGC_TRY(tokens_->batch(step, out));
    if (hasDocuments(out) && documents_.endToken)
      findDocuments(out.tokens, shape_.length, *documents_.endToken, out.starts);
    if (documents_.masksEnds)
      maskEnds(out.tokens, shape_.length, documents_.endToken, out.starts, kIgnoredLabel, out.labels);
    return Status::ok();
  }
  std::string describe() const override {
    return tokens_->describe() +
           (documents_.endToken ? fmt::format(", documents end at token {}", *documents_.endToken) : "");
  }
  std::optional<double> epochsOf(int64_t steps) const override { return tokens_->epochsOf(steps); }

private:
  std::unique_ptr<DataSource> tokens_;
  BatchShape shape_;
  DocumentOptions documents_;
};

Status verifyDocuments(const DocumentOptions &documents, const Plan &plan, bool saysWhereTheyBegin) {
  if (documents.endToken && (*documents.endToken < 0 || *documents.endToken >= plan.vocabulary))
    return errorf("--eod-token-id {}: expected 0 to {}, a token of the model's vocabulary",
                  *documents.endToken, plan.vocabulary - 1);
  const bool isKnown = documents.endToken || saysWhereTheyBegin;
  if (documents.endToken && !documents.masksEnds && !plan::readsDocuments(plan))
    return errorf(
        "--eod-token-id {} changes nothing: the plan's sequences are one document each; expected "
        "--eod-mask-loss beside it, or a plan of mgc compile --reset-position-ids --reset-attention-mask",
        *documents.endToken);
  if (documents.masksEnds && !isKnown)
    return errorf("--eod-mask-loss: nothing says where a document ends; expected --eod-token-id");
  if (plan::readsDocuments(plan) && !isKnown)
    return errorf(
        "the plan is of packed documents (--reset-position-ids, --reset-attention-mask), but nothing "
        "says where a document ends; expected --eod-token-id, or position_ids in a .safetensors file");
  return Status::ok();
}

// --- Whole batches, made elsewhere -------------------------------------------------------------------------

class BatchData : public DataSource {
public:
  static Opened open(const std::string &path, const Plan &plan, const BatchShape &shape,
                     const DocumentOptions &documents) {
    MGC_ASSIGN(file, Safetensors::open(path));
    const bool hasPositions = file.find(kPositionIds) != nullptr;
    if (hasPositions && documents.endToken)
      return errorf("{}: {} say where documents begin; expected no --eod-token-id", path, kPositionIds);
    MGC_TRY(verifyDocuments(documents, plan, hasPositions));
    const TensorView *ids = file.find("input_ids"), *labels = file.find("labels");
    MGC_TRY(verify(ids, shape).at(path + ": input_ids"));
    MGC_TRY(verify(labels, shape).at(path + ": labels"));
    if (ids->shape[0] != labels->shape[0])
      return errorf("{}: input_ids has {} steps, labels {}, expected equal", path, ids->shape[0],
                    labels->shape[0]);
    MGC_ASSIGN(idFile, TensorFile::open(file.file(), *ids));
    MGC_ASSIGN(labelFile, TensorFile::open(file.file(), *labels));
    TokenReader idReader(path + ": input_ids", std::move(idFile), shape.vocabulary);
    TokenReader labelReader(path + ": labels", std::move(labelFile), shape.vocabulary, true);
    MGC_TRY(idReader.scan());
    MGC_TRY(labelReader.scan());
    int64_t steps = ids->shape[0];
    std::unique_ptr<BatchData> data(
        new BatchData(path, std::move(idReader), std::move(labelReader), steps, shape));
    MGC_TRY(data->openPositions(file, plan));
    return std::unique_ptr<DataSource>(std::move(data));
  }

  Status batch(int64_t step, GlobalBatch &out) override {
    MGC_TRY(verifyStep(step, shape_, out));
    int64_t elements = shape_.samples * shape_.length, begin = step % steps_ * elements;
    MGC_TRY(ids_.read(begin, elements, out.tokens.data()));
    MGC_TRY(labels_.read(begin, elements, out.labels.data()));
    return positions_ ? readStarts(step % steps_, out.starts) : Status::ok();
  }

  std::string describe() const override {
    return fmt::format("{}: {} batches of {} samples of {} tokens", path_, steps_, shape_.samples,
                       shape_.length);
  }
  std::optional<double> epochsOf(int64_t steps) const override { return double(steps) / double(steps_); }

private:
  BatchData(std::string path, TokenReader ids, TokenReader labels, int64_t steps, const BatchShape &shape)
      : path_(std::move(path)), ids_(std::move(ids)), labels_(std::move(labels)), steps_(steps),
        shape_(shape) {}

  static constexpr const char *kPositionIds = "position_ids";

  // Documents that a plan is not made for are an error before training, as wrong tokens are.
  Status openPositions(const Safetensors &file, const Plan &plan) {
    const TensorView *tensor = file.find(kPositionIds);
    if (!tensor)
      return Status::ok();
    const std::string name = fmt::format("{}: {}", path_, kPositionIds);
    MGC_TRY(verify(tensor, shape_).at(name));
    if (tensor->shape[0] != steps_)
      return errorf("{} has {} steps, input_ids {}, expected equal", name, tensor->shape[0], steps_);
    MGC_ASSIGN(opened, TensorFile::open(file.file(), *tensor));
    positions_ = std::move(opened);
    rule_ = {plan::readsDocuments(plan), plan.longestDocument};
    constexpr int64_t kScanned = int64_t(1) << 28; // as of tokens
    std::vector<int32_t> none;
    for (int64_t step = 0; step < steps_ && step * shape_.samples * shape_.length < kScanned; ++step)
      MGC_TRY(readStarts(step, none));
    return Status::ok();
  }

  // Where `starts` is empty, the positions are only checked.
  Status readStarts(int64_t step, std::vector<int32_t> &starts) const {
    std::vector<int64_t> positions(static_cast<size_t>(shape_.length));
    std::vector<int32_t> found(positions.size());
    for (int64_t sample = 0; sample < shape_.samples; ++sample) {
      const int64_t begin = (step * shape_.samples + sample) * shape_.length;
      for (int64_t done = 0; done < shape_.length; done += TensorFile::kPiece)
        MGC_TRY(positions_->read(begin + done, std::min(shape_.length - done, TensorFile::kPiece),
                                 positions.data() + done));
      MGC_TRY(startsOfPositions(positions, rule_, found)
                  .at(fmt::format("{}: {}: step {}, sample {}", path_, kPositionIds, step, sample)));
      if (!starts.empty())
        std::ranges::copy(found, starts.begin() + sample * shape_.length);
    }
    return Status::ok();
  }

  static Status verify(const TensorView *tensor, const BatchShape &shape) {
    std::string expected = fmt::format("integers [steps, {}, {}]", shape.samples, shape.length);
    if (!tensor)
      return errorf("missing, expected {}", expected);
    const std::vector<int64_t> &found = tensor->shape;
    if (!isInteger(tensor->type) || found.size() != 3 || found[0] < 1 || found[1] != shape.samples ||
        found[2] != shape.length)
      return errorf("found {} {}, expected {}: global batch size and sequence length of the plan",
                    toString(tensor->type), shapeToString(found), expected);
    return Status::ok();
  }

  std::string path_;
  TokenReader ids_, labels_;
  std::optional<TensorFile> positions_; // none: each sequence is one document
  PositionRule rule_;
  int64_t steps_;
  BatchShape shape_;
};

// --- Made-up data ------------------------------------------------------------------------------------------

// A chain over at most 128 tokens: x -> 5x + 7, and with probability 1/8 any of them instead.
class MockData : public DataSource {
public:
  MockData(const BatchShape &shape, int64_t longest, uint64_t seed)
      : shape_(shape), longest_(longest > 0 ? longest : shape.length),
        tokens_(uint32_t(std::clamp<int64_t>(shape.vocabulary, 1, 128))), seed_(seed) {}

  Status batch(int64_t step, GlobalBatch &out) override {
    MGC_TRY(verifyStep(step, shape_, out));
    for (int64_t i = 0; i < shape_.samples; ++i)
      sample(uint64_t(step * shape_.samples + i), out.tokens.data() + i * shape_.length,
             out.labels.data() + i * shape_.length);
    for (int64_t i = 0; i < static_cast<int64_t>(out.starts.size()); ++i)
      out.starts[i] = start(uint64_t(step * shape_.samples + i / shape_.length), i % shape_.length,
                            i % shape_.length ? out.starts[i - 1] : 0);
    return Status::ok();
  }

  std::string describe() const override { return fmt::format("made-up data over {} tokens", tokens_); }

private:
  void sample(uint64_t number, int32_t *tokens, int32_t *labels) const {
    uint32_t token = draw(number, 0)[1] % tokens_;
    for (int64_t t = 0; t < shape_.length; ++t) {
      tokens[t] = int32_t(token);
      PhiloxWords words = draw(number, uint32_t(t) + 1);
      token = words[0] % 8 == 0 ? words[1] % tokens_ : (5 * token + 7) % tokens_;
      labels[t] = int32_t(token);
    }
  }
  // A document begins at half of the places of a short sequence, at four or so of those of a long one.
  int32_t start(uint64_t number, int64_t position, int32_t before) const {
    const auto span = uint32_t(std::max<int64_t>(2, std::min(shape_.length / 4, longest_)));
    const bool begins =
        position == 0 || position - before == longest_ || draw(number, uint32_t(position))[2] % span == 0;
    return begins ? int32_t(position) : before;
  }
  PhiloxWords draw(uint64_t number, uint32_t position) const {
    return philox({lowWord(number), highWord(number), position, lowWord(hashName("mock data"))},
                  philoxKey(seed_));
  }
  BatchShape shape_;
  int64_t longest_; // document
  uint32_t tokens_;
  uint64_t seed_;
};

} // namespace

Result<GlobalBatch> GlobalBatch::create(const Plan &plan) {
  GlobalBatch batch;
  try {
    batch.tokens.resize(plan.globalBatchSize * plan.sequenceLength);
    batch.labels.resize(batch.tokens.size());
    batch.starts.resize(plan::readsDocuments(plan) ? batch.tokens.size() : 0);
  } catch (const std::bad_alloc &) {
    return errorf("a global batch of {} samples of {} tokens does not fit the memory; a smaller --gbs would",
                  plan.globalBatchSize, plan.sequenceLength);
  }
  return batch;
}

static std::unique_ptr<DataSource> packed(std::unique_ptr<DataSource> data, const BatchShape &shape,
                                          const DocumentOptions &documents) {
  if (!documents.endToken && !documents.masksEnds)
    return data;
  return std::make_unique<PackedData>(std::move(data), shape, documents);
}

static bool isText(const std::string &path) {
  return std::ranges::none_of(std::initializer_list<std::string_view>{".safetensors", ".npy", ".bin"},
                              [&](std::string_view ending) { return path.ends_with(ending); });
}

// Files that people have, which would be read as text.
static Status verifyFormat(const std::string &path) {
  std::string ending = std::filesystem::path(path).extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  if (ending == ".jsonl" || ending == ".json")
    return errorf(
        "{}: is JSON, whose braces and field names would become tokens; expected token ids: take the "
        "text of each document, tokenize it with the model's tokenizer and write .npy or .bin "
        "(docs/data.md has the few lines that do so)",
        path);
  if (ending == ".idx")
    return errorf("{}: is the index of a data set, expected its tokens: {}", path,
                  std::filesystem::path(path).replace_extension(".bin").string());
  return Status::ok();
}

Opened openData(const std::string &path, const Plan &plan, uint64_t seed, const DataOptions &options) {
  BatchShape shape(plan);
  if (shape.samples < 1 || shape.length < 1 || shape.vocabulary < 1)
    return errorf(
        "the plan has global batch size {}, sequence length {} and vocabulary {}, expected at least 1",
        shape.samples, shape.length, shape.vocabulary);
  if (!options.binType.empty() && !path.ends_with(".bin"))
    return errorf("{}: --bin-type {} is for files that end in .bin", path, options.binType);
  if (options.textBytes && !isText(path))
    return errorf("{}: --text-bytes is for text, which this ending is not of", path);
  MGC_TRY(verifyFormat(path));
  const bool isBatches = path.ends_with(".safetensors");
  if (!isBatches)
    MGC_TRY(verifyDocuments(options.documents, plan, false));
  const DocumentRule rule{options.documents.endToken, plan::readsDocuments(plan) ? plan.longestDocument : 0};
  MGC_ASSIGN(data, isBatches                ? BatchData::open(path, plan, shape, options.documents)
                   : path.ends_with(".npy") ? openNpy(path, shape, seed, rule)
                   : path.ends_with(".bin") ? openBin(path, shape, seed, options, rule)
                                            : openText(path, shape, seed, options, rule));
  return packed(std::move(data), shape, options.documents);
}

Opened makeMockData(const Plan &plan, uint64_t seed, const DocumentOptions &documents) {
  MGC_TRY(verifyDocuments(documents, plan, plan::readsDocuments(plan)));
  const BatchShape shape(plan);
  if (documents.endToken && plan.longestDocument > 0 && plan.longestDocument < shape.length)
    return errorf(
        "--eod-token-id {}: made-up documents that end at a token may be longer than the {} tokens for "
        "which the model has learned positions; expected none, so that their lengths are drawn",
        *documents.endToken, plan.longestDocument);
  return packed(std::make_unique<MockData>(shape, plan.longestDocument, seed), shape, documents);
}

} // namespace mgc
