// See ChatData.h.
#include "runtime/data/ChatData.h"

#include "runtime/base/Checksum.h"
#include "runtime/data/BatchData.h"
#include "runtime/data/BatchShape.h"
#include "runtime/data/SampleOrder.h"
#include "runtime/data/chat/ChatTemplate.h"
#include "runtime/data/chat/RenderProcess.h"
#include "runtime/data/chat/TextCache.h"
#include "runtime/data/preprocess/LineReader.h"
#include "runtime/random/Philox.h"

#include <algorithm>
#include <fmt/ranges.h>

namespace mgc {

namespace {

constexpr int kVersionOfTexts = 2; // another one, when equal conversations may have other texts

struct ChatCounts {
  int64_t cut = 0, leftOut = 0, shortened = 0;
};

class ChatData final : public DataSource {
public:
  ChatData(std::string path, const plan::Plan &plan, uint64_t seed, int32_t padding)
      : path_(std::move(path)), shape_(plan), seed_(seed), padding_(padding), packs_(plan::readsDocuments(plan)),
        longest_(plan.longestDocument > 0 ? std::min(plan.longestDocument, plan.sequenceLength) : plan.sequenceLength) {
  }

  void add(ChatTokens chat, const LineText &text) {
    if (std::ssize(chat.ids) > longest_) {
      chat.ids.resize(static_cast<size_t>(longest_)), chat.isLearned.resize(static_cast<size_t>(longest_));
      ++counts_.cut;
    }
    if (std::none_of(chat.isLearned.begin() + (chat.ids.empty() ? 0 : 1), chat.isLearned.end(),
                     [](bool b) { return b; }))
      ++counts_.leftOut;
    else
      addContents(chat), chats_.push_back(std::move(chat)), lines_.push_back(text.line),
          counts_.shortened += text.chat.shortened;
  }

  // Conversations, in an order of their own, fill a sample as long as the next one fits.
  Status pack() {
    identify("contents of --data", fmt::format("conversations with the checksum {}", contents_.text()));
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

  // Where the conversation of a line, from 0, stands in the file.
  std::string placeOf(int64_t line) const {
    return fmt::format("{} {}", path_.ends_with(".parquet") ? "row" : "line", line + 1);
  }
  std::string describe() const override {
    std::string text = fmt::format("{}: {} conversations in {} samples of {} tokens", path_, chats_.size(),
                                   samples_.size(), shape_.length);
    if (counts_.cut > 0)
      text += fmt::format(", {} of them cut off at {}", counts_.cut, longest_);
    if (counts_.leftOut > 0)
      text += fmt::format("; {} left out, for nothing in them is learned", counts_.leftOut);
    if (counts_.shortened > 0)
      text += fmt::format("; {} earlier answers without their thoughts, which the template drops", counts_.shortened);
    return text;
  }
  std::string describeBatch(int64_t first) override {
    return listSamples(path_, shape_.samples, [&](int64_t i) {
      std::string text;
      for (const int64_t chat : chatsAt(first, i))
        text += text.empty() ? placeOf(lines_[static_cast<size_t>(chat)])
                             : fmt::format(", {}", lines_[static_cast<size_t>(chat)] + 1);
      return text;
    });
  }
  std::optional<double> epochsOf(int64_t samples) const override { return double(samples) / double(samples_.size()); }

private:
  // Tokens and which of them are learned; what else a line has may change.
  void addContents(const ChatTokens &chat) {
    std::vector<int32_t> contents = {static_cast<int32_t>(chat.ids.size())};
    for (size_t i = 0; i < chat.ids.size(); ++i)
      contents.push_back(chat.isLearned[i] ? ~chat.ids[i] : chat.ids[i]);
    contents_.add(std::as_bytes(std::span(contents)));
  }
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
  Checksum contents_; // checksum of the conversations, in their order
  std::vector<ChatTokens> chats_;
  std::vector<int64_t> lines_;                // line number of each chat, from 0
  std::vector<std::vector<int64_t>> samples_; // numbers of conversations
};

// Lines -> texts -> tokens, a block after the other.
class ChatReader {
public:
  ChatReader(const DataOptions &options, const Tokenizer &tokenizer, ChatTemplate *chatTemplate, ChatData &data)
      : options_(options), tokenizer_(tokenizer), template_(chatTemplate), encoder_(tokenizer.encoder()), data_(data) {}

  // Keeps the texts in `kept`, for the cache.
  Status read(const LineBlock &block, std::vector<LineText> *kept) {
    std::vector<Result<ChatLine>> lines;
    std::vector<int64_t> numbers;
    MGC_TRY(forEachLine(block, [&](std::string_view line, int64_t number) {
      if (line.find_first_not_of(" \t") == std::string_view::npos)
        return Status::ok();
      Result<OrderedJson> json = parseChatLine(line, options_.chats.form);
      lines.push_back(json.isOk() ? readChatLine(json.take(), options_.chats.form) : json.status());
      numbers.push_back(number);
      return Status::ok();
    }));
    MGC_ASSIGN(texts, textsOf(lines));
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!texts[i].isOk())
        return Status(texts[i].status()).at(data_.placeOf(numbers[i]));
      texts[i]->line = numbers[i];
      MGC_TRY(add(*texts[i]));
      if (kept)
        kept->push_back(texts[i].take());
    }
    return Status::ok();
  }

  bool hasConversations() const { return hasConversations_; } // else all lines were pairs, which no template writes

  Status add(const LineText &text) {
    hasConversations_ |= !text.isPair;
    Result<ChatTokens> found = tokenize(text.chat, options_.chats.form.learn, *encoder_);
    MGC_ASSIGN(tokens, std::move(found).at(data_.placeOf(text.line)));
    if (text.isPair)
      MGC_TRY(putAround(tokens).at(data_.placeOf(text.line)));
    data_.add(std::move(tokens), text);
    return Status::ok();
  }

private:
  // The tokens that the tokenizer puts before a text, unless the prompt begins with them, and the end token.
  Status putAround(ChatTokens &tokens) {
    if (!tokenizer_.endToken())
      return errorf("a completion ends with the tokenizer's end token, and the tokenizer names none; expected "
                    "tokenizer_config.json with eos_token beside it, or \"messages\" and --chat-template FILE");
    if (!begin_) {
      std::vector<int32_t> plain, whole;
      MGC_TRY(encoder_->encode("a", /*special=*/false, plain));
      MGC_TRY(encoder_->encode("a", /*special=*/true, whole));
      const auto text = std::ranges::search(whole, plain); // nothing: what it puts before a text depends on that
      begin_.emplace(whole.begin(), text.empty() ? whole.begin() : text.begin());
    }
    if (std::ranges::mismatch(*begin_, tokens.ids).in1 != begin_->end()) {
      tokens.ids.insert(tokens.ids.begin(), begin_->begin(), begin_->end());
      tokens.isLearned.insert(tokens.isLearned.begin(), begin_->size(), false);
    }
    tokens.ids.push_back(*tokenizer_.endToken()), tokens.isLearned.push_back(true);
    return Status::ok();
  }

  Result<std::vector<Result<LineText>>> textsOf(std::vector<Result<ChatLine>> &lines) const {
    std::vector<Result<LineText>> out;
    std::vector<Conversation> chats;
    std::vector<size_t> places;
    for (Result<ChatLine> &line : lines) {
      out.push_back(line.isOk() ? Result<LineText>(LineText()) : line.status());
      if (auto *chat = line.isOk() ? std::get_if<Conversation>(&*line) : nullptr)
        places.push_back(out.size() - 1), chats.push_back(std::move(*chat));
      else if (line.isOk())
        out.back() = textOf(std::get<TextPair>(*line));
    }
    if (chats.empty())
      return out;
    if (!template_) {
      out[places.front()] = errorf("the tokenizer has no chat template, and no <|im_start|> and <|im_end|>; expected "
                                   "--chat-template FILE, which says what is put around messages (docs/data.md)");
      return out;
    }
    MGC_ASSIGN(texts, template_->texts(chats, options_.chats.form.learn));
    for (size_t i = 0; i < places.size(); ++i)
      out[places[i]] = texts[i].isOk() ? Result<LineText>(LineText{texts[i].take()}) : texts[i].status();
    return out;
  }

  static LineText textOf(TextPair &pair) {
    LineText out{{pair.prompt + pair.completion, {}}, /*isPair=*/true};
    out.chat.learned.push_back({uint32_t(pair.prompt.size()), uint32_t(out.chat.text.size())});
    return out;
  }

  const DataOptions &options_;
  const Tokenizer &tokenizer_;
  ChatTemplate *template_; // null: there is none
  std::unique_ptr<Encoder> encoder_;
  std::optional<std::vector<int32_t>> begin_; // tokens that it puts before a text, once they are known
  ChatData &data_;
  bool hasConversations_ = false;
};

Result<LineReader> openLines(const std::string &path, const std::atomic<bool> *stop) {
  if (!path.ends_with(".parquet"))
    return LineReader::open({path});
  MGC_ASSIGN(rows, linesOfParquet(path, stop).at(path));
  return LineReader::of(std::move(rows));
}

Result<OrderedJson> variablesOf(const ChatOptions &options) {
  if (options.variables.empty())
    return OrderedJson::object();
  Result<OrderedJson> json = parseOrderedJson(options.variables);
  if (!json.isOk() || !json->is_object())
    return errorf("--chat-template-kwargs: is {}, expected a JSON object, as {{\"enable_thinking\": false}}",
                  printable(options.variables));
  return json;
}

Status readAll(const LineReader &lines, ChatReader &reader, std::vector<LineText> *kept,
               const std::atomic<bool> *stop) {
  constexpr int64_t kBlock = 1 << 20;
  LinePosition position;
  while (true) {
    MGC_ASSIGN(block, lines.read(position, kBlock));
    if (!block)
      return Status::ok();
    if (stop && *stop)
      return errorf("a request to end came while its lines were tokenized");
    position = block->end;
    MGC_TRY(reader.read(*block, kept));
  }
}

// All that the texts are made of.
Result<uint64_t> keyOf(const LineReader &lines, const ChatTemplate &chat, const ChatOptions &options) {
  Checksum checksum;
  for (LinePosition position;;) {
    MGC_ASSIGN(block, lines.read(position, int64_t(1) << 20));
    if (!block)
      break;
    checksum.add(block->text);
    position = block->end;
  }
  return hashName(fmt::format("{} {} {} {:x} {} {}", checksum.text(), lines.bytes(), kVersionOfTexts, chat.hash(),
                              kSftLearnNames[size_t(options.form.learn)], fmt::join(options.form.ignored, ",")));
}

Status readThrough(const TextCache &cache, const LineReader &lines, ChatReader &reader, const std::atomic<bool> *stop) {
  if (const auto kept = cache.load()) {
    for (const LineText &text : *kept)
      MGC_TRY(reader.add(text));
    return Status::ok();
  }
  MGC_TRY(cache.prepare().at("--data-cache-path"));
  std::vector<LineText> texts;
  MGC_TRY(readAll(lines, reader, &texts, stop));
  return cache.save(texts).at("--data-cache-path");
}

} // namespace

Result<std::unique_ptr<DataSource>> openChats(const std::string &path, const plan::Plan &plan, uint64_t seed,
                                              const Tokenizer &tokenizer, const DataOptions &options) {
  if (plan.objective != plan::Objective::causal)
    return errorf("{}: --sft: the plan predicts masked tokens, expected one that predicts the next", path);
  if (const std::string harm = harmOfPadding(plan); !harm.empty())
    return errorf("{}: --sft: samples have padding, but {}", path, harm);
  const std::atomic<bool> *stop = options.reading.stop;
  MGC_ASSIGN(variables, variablesOf(options.chats));
  MGC_ASSIGN(chat,
             openChatTemplate({options.chats.templateFile, options.tokenizerFiles.model, variables, stop}, tokenizer));
  MGC_ASSIGN(lines, openLines(path, stop));
  auto data = std::make_unique<ChatData>(path, plan, seed, tokenizer.endToken().value_or(0));
  ChatReader reader(options, tokenizer, chat.get(), *data);
  if (options.chats.cache.empty() || !chat) {
    MGC_TRY(readAll(lines, reader, nullptr, stop).at(path));
  } else {
    MGC_ASSIGN(key, keyOf(lines, *chat, options.chats).at(path));
    MGC_TRY(readThrough(TextCache(options.chats.cache, key), lines, reader, stop).at(path));
  }
  MGC_TRY(data->pack());
  if (chat) {
    if (reader.hasConversations())
      data->setChatTemplate(chat->describe(), chat->jinja());
    data->identify("contents of the chat template", fmt::format("the hash {:016x}", chat->hash()));
  }
  return std::unique_ptr<DataSource>(std::move(data));
}

} // namespace mgc
