// See ChatData.h.
#include "runtime/data/ChatData.h"

#include "runtime/data/BatchData.h"
#include "runtime/data/BatchShape.h"
#include "runtime/data/SampleOrder.h"
#include "runtime/data/preprocess/LineReader.h"

#include <algorithm>

namespace mgc {

namespace {

struct ChatCounts {
  int64_t cut = 0, leftOut = 0;
};

class ChatData final : public DataSource {
public:
  ChatData(std::string path, const plan::Plan &plan, uint64_t seed, int32_t padding)
      : path_(std::move(path)), shape_(plan), seed_(seed), padding_(padding), packs_(plan::readsDocuments(plan)),
        longest_(plan.longestDocument > 0 ? std::min(plan.longestDocument, plan.sequenceLength) : plan.sequenceLength) {
  }

  void add(ChatTokens chat, int64_t line) {
    if (std::ssize(chat.ids) > longest_) {
      chat.ids.resize(static_cast<size_t>(longest_)), chat.isLearned.resize(static_cast<size_t>(longest_));
      ++counts_.cut;
    }
    if (std::none_of(chat.isLearned.begin() + (chat.ids.empty() ? 0 : 1), chat.isLearned.end(),
                     [](bool b) { return b; }))
      ++counts_.leftOut;
    else
      chats_.push_back(std::move(chat)), lines_.push_back(line);
  }

  // Conversations, in an order of their own, fill a sample as long as the next one fits.
  Status pack() {
    if (chats_.empty())
      return errorf("{}: has no conversation with a token to be learned within {} tokens", path_, longest_);
    constexpr int64_t kOrderOfPacking = -1; // an epoch that no training reaches
    int64_t filled = shape_.length;
    for (int64_t i = 0; i < std::ssize(chats_); ++i) {
      const int64_t chat = shuffledSample(seed_, kOrderOfPacking, i, std::ssize(chats_));
      const auto length = std::ssize(chats_[static_cast<size_t>(chat)].ids);
      if (!packs_ || filled + length > shape_.length)
        samples_.emplace_back(), filled = 0;
      samples_.back().push_back(chat);
      filled += length;
    }
    return Status::ok();
  }

  Status batch(int64_t first, GlobalBatch &out) override {
    MGC_TRY(beginBatch(first, shape_, out));
    for (int64_t i = 0; i < shape_.samples; ++i)
      fill(chatsAt(first, i), i, out);
    return Status::ok();
  }

  std::string describe() const override {
    std::string text = fmt::format("{}: {} conversations in {} samples of {} tokens", path_, chats_.size(),
                                   samples_.size(), shape_.length);
    if (counts_.cut > 0)
      text += fmt::format(", {} of them cut off at {}", counts_.cut, longest_);
    if (counts_.leftOut > 0)
      text += fmt::format("; {} left out, for nothing in them is learned", counts_.leftOut);
    return text;
  }
  std::string describeBatch(int64_t first) override {
    return listSamples(path_, shape_.samples, [&](int64_t i) {
      std::string text;
      for (const int64_t chat : chatsAt(first, i))
        text += fmt::format("{}{}", text.empty() ? "line " : ", ", lines_[static_cast<size_t>(chat)] + 1);
      return text;
    });
  }
  std::optional<double> epochsOf(int64_t samples) const override { return double(samples) / double(samples_.size()); }

private:
  // The conversations of a sample of a batch.
  const std::vector<int64_t> &chatsAt(int64_t first, int64_t i) const {
    const int64_t number = first + i, samples = std::ssize(samples_);
    return samples_[static_cast<size_t>(shuffledSample(seed_, number / samples, number % samples, samples))];
  }
  // Each place of the padding is a document of its own: none is longer than the model has positions.
  void fill(const std::vector<int64_t> &chats, int64_t sample, GlobalBatch &out) const {
    const size_t begin = static_cast<size_t>(sample * shape_.length), end = begin + static_cast<size_t>(shape_.length);
    size_t place = begin;
    const auto setStart = [&](size_t at, size_t start) {
      if (!out.starts.empty())
        out.starts[at] = static_cast<int32_t>(start - begin);
    };
    for (const int64_t number : chats) {
      const ChatTokens &chat = chats_[static_cast<size_t>(number)];
      for (size_t i = 0, start = place; i < chat.ids.size(); ++i, ++place) {
        const bool hasLabel = i + 1 < chat.ids.size() && chat.isLearned[i + 1];
        out.tokens[place] = chat.ids[i];
        out.labels[place] = hasLabel ? chat.ids[i + 1] : kIgnoredLabel;
        setStart(place, start);
      }
    }
    for (; place < end; ++place) {
      out.tokens[place] = padding_, out.labels[place] = kIgnoredLabel;
      setStart(place, place);
    }
  }

  std::string path_;
  BatchShape shape_;
  uint64_t seed_;
  int32_t padding_;
  bool packs_;
  int64_t longest_;
  ChatCounts counts_;
  std::vector<ChatTokens> chats_;
  std::vector<int64_t> lines_;                // line number of each chat, from 0
  std::vector<std::vector<int64_t>> samples_; // numbers of conversations
};

Status readLine(std::string_view line, int64_t number, const ChatTemplate &chat, Encoder &encoder, ChatData &data) {
  const Result<nlohmann::json> json = parseJson(line);
  if (!json.isOk())
    return json.status();
  MGC_ASSIGN(tokens, chat.encode(*json, encoder));
  data.add(std::move(tokens), number);
  return Status::ok();
}

} // namespace

Result<std::unique_ptr<DataSource>> openChats(const std::string &path, const plan::Plan &plan, uint64_t seed,
                                              const Tokenizer &tokenizer, const std::string &chatTemplate,
                                              const std::atomic<bool> *stop) {
  if (plan.objective != plan::Objective::causal)
    return errorf("{}: --sft: the plan predicts masked tokens, expected one that predicts the next", path);
  if (const std::string harm = harmOfPadding(plan); !harm.empty())
    return errorf("{}: --sft: samples have padding, but {}", path, harm);
  MGC_ASSIGN(chat, ChatTemplate::open(chatTemplate, tokenizer));
  MGC_ASSIGN(lines, LineReader::open({path}));
  auto data = std::make_unique<ChatData>(path, plan, seed, tokenizer.endToken().value_or(0));
  const auto encoder = tokenizer.encoder();
  constexpr int64_t kBlock = 1 << 20;
  LinePosition position;
  while (true) {
    MGC_ASSIGN(block, lines.read(position, kBlock));
    if (!block)
      break;
    if (stop && *stop)
      return stoppedWhileReading(path);
    position = block->end;
    MGC_TRY(forEachLine(*block, [&](std::string_view line, int64_t number) {
              return readLine(line, number, chat, *encoder, *data).at(fmt::format("line {}", number + 1));
            }).at(path));
  }
  MGC_TRY(data->pack());
  return std::unique_ptr<DataSource>(std::move(data));
}

} // namespace mgc
