// See HuggingFaceTokenizer.h.
#include "runtime/tokenizers/HuggingFaceTokenizer.h"

#include "runtime/base/File.h"
#include "runtime/base/Utf8.h"
#include "runtime/tokenizers/AddedTokens.h"
#include "runtime/tokenizers/ByteLevel.h"
#include "runtime/tokenizers/PreTokenizers.h"
#include "runtime/tokenizers/TokenModel.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <sstream>

namespace mgc {

namespace {

// --- Post-processors --------------------------------------------------------------------------------------------

// Ids around those of a text.
struct AroundText {
  std::vector<int32_t> before, after;
};

using HasId = std::function<bool(int32_t id)>; // whether a token of the model, or an added one, has it

Result<AroundText> readAround(const JsonPlace &json, const HasId &hasId);

Status addId(const JsonPlace &json, const HasId &hasId, std::vector<int32_t> &ids) {
  const std::optional<int64_t> id = jsonSize(json.value());
  if (!id || *id > INT32_MAX || !hasId(static_cast<int32_t>(*id)))
    return errorf("{}: is {}, expected the id of a token of the model's vocabulary or of added_tokens", json.where(),
                  json.shown());
  ids.push_back(static_cast<int32_t>(*id));
  return Status::ok();
}

Result<AroundText> aroundOfTemplate(const JsonPlace &json, const HasId &hasId) {
  AroundText around;
  const JsonPlace single = json["single"];
  int texts = 0;
  for (size_t i = 0; i < single.size(); ++i) {
    const JsonPlace special = single[i]["SpecialToken"];
    if (special.isNull()) {
      ++texts;
      continue;
    }
    MGC_ASSIGN(name, special["id"].text());
    const JsonPlace ids = json["special_tokens"][name.c_str()]["ids"];
    if (ids.size() == 0)
      return errorf("{}: is {}, expected a list of the ids of the token {}", ids.where(), ids.shown(), printable(name));
    for (size_t k = 0; k < ids.size(); ++k)
      MGC_TRY(addId(ids[k], hasId, texts > 0 ? around.after : around.before));
  }
  if (texts != 1)
    return errorf("{}: names {} texts, expected one, with special tokens around it", single.where(), texts);
  return around;
}

Result<AroundText> aroundOfPair(const JsonPlace &json, const HasId &hasId) {
  AroundText around;
  for (const auto &[name, ids] : {std::pair("cls", &around.before), std::pair("sep", &around.after)}) {
    const JsonPlace pair = json[name];
    if (pair.size() != 2)
      return errorf("{}: is {}, expected a token and its id", pair.where(), pair.shown());
    MGC_TRY(addId(pair[size_t(1)], hasId, *ids));
  }
  return around;
}

Result<AroundText> aroundOfSequence(const JsonPlace &json, const HasId &hasId) {
  AroundText around;
  const JsonPlace processors = json["processors"];
  for (size_t i = 0; i < processors.size(); ++i) {
    MGC_ASSIGN(outer, readAround(processors[i], hasId));
    around.before.insert(around.before.begin(), outer.before.begin(), outer.before.end());
    around.after.insert(around.after.end(), outer.after.begin(), outer.after.end());
  }
  return around;
}

// ByteLevel moves offsets alone.
Result<AroundText> aroundOfNothing(const JsonPlace &, const HasId &) { return AroundText(); }

struct PostProcessorRow {
  std::string_view name;
  Result<AroundText> (*read)(const JsonPlace &json, const HasId &hasId);
};
constexpr PostProcessorRow kPostProcessors[] = {{"TemplateProcessing", aroundOfTemplate},
                                                {"BertProcessing", aroundOfPair},
                                                {"RobertaProcessing", aroundOfPair},
                                                {"ByteLevel", aroundOfNothing},
                                                {"Sequence", aroundOfSequence}};

Result<AroundText> readAround(const JsonPlace &json, const HasId &hasId) {
  if (json.isNull())
    return AroundText();
  MGC_ASSIGN(type, json.type());
  MGC_ASSIGN(row, rowOf(json, type, kPostProcessors, "post-processor"));
  return row->read(json, hasId);
}

// --- The tokenizer ----------------------------------------------------------------------------------------------

struct TokenizerParts {
  std::unique_ptr<TextNormalizer> normalizer; // null: none
  std::unique_ptr<PreTokenizer> preTokenizer; // null: none
  std::unique_ptr<TokenModel> model;
  AroundText around;
  TokenFinder raw, normalized; // finders of added tokens
  TokenIds added;
  std::optional<int32_t> end;
};

// The ids of words that were seen lately; cleared when it is full.
struct WordTokens {
  std::vector<int32_t> ids;
  std::vector<uint32_t> ends; // see TokenModel::tokenize; empty: not asked
};
class WordCache {
public:
  const WordTokens *find(std::string_view word, bool withEnds) const {
    const auto found = words_.find(word);
    return found == words_.end() || (withEnds && found->second.ends.empty()) ? nullptr : &found->second;
  }
  const WordTokens *add(std::string_view word, WordTokens tokens) {
    constexpr size_t kMostBytes = 64 << 20;
    bytes_ += word.size() + (sizeof(int32_t) + sizeof(uint32_t)) * tokens.ids.size() + 128;
    if (bytes_ > kMostBytes)
      words_.clear(), bytes_ = 0;
    return &words_.insert_or_assign(std::string(word), std::move(tokens)).first->second;
  }

private:
  std::unordered_map<std::string, WordTokens, TextHash, std::equal_to<>> words_;
  size_t bytes_ = 0;
};

class PartsEncoder final : public Encoder {
public:
  explicit PartsEncoder(const TokenizerParts &parts) : parts_(parts) {}

  Status encode(std::string_view text, bool special, std::vector<int32_t> &ids,
                std::vector<TextRange> *places) override {
    if (const auto at = firstInvalidUtf8(text))
      return errorf("byte {:#04x} at position {} is not UTF-8", static_cast<unsigned char>(text[*at]), *at);
    if (text.size() > UINT32_MAX)
      return errorf("has {} bytes, expected less than 4 GiB", text.size());
    const Out out{ids, places};
    if (special)
      addSpecial(parts_.around.before, out);
    MGC_TRY(parts_.raw.forEach(text, [&](size_t begin, size_t end, int32_t id) {
      if (id < 0)
        return encodeBetween(text.substr(begin, end - begin), begin, out);
      return out.add(id, {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    }));
    if (special)
      addSpecial(parts_.around.after, out);
    return Status::ok();
  }

private:
  struct Out {
    std::vector<int32_t> &ids;
    std::vector<TextRange> *places; // null: not asked
    Status add(int32_t id, TextRange place) const {
      ids.push_back(id);
      if (places)
        places->push_back(place);
      return Status::ok();
    }
  };

  static void addSpecial(const std::vector<int32_t> &ids, const Out &out) {
    for (const int32_t id : ids)
      (void)out.add(id, {});
  }

  Status encodeBetween(std::string_view text, size_t at, const Out &out) {
    if (parts_.normalizer || out.places) {
      changed_.assign(text, out.places != nullptr, static_cast<uint32_t>(at));
      if (parts_.normalizer)
        MGC_TRY(parts_.normalizer->apply(changed_));
      text = changed_.view();
    }
    const TextPiece all{text, at == 0, out.places ? changed_.origins() : nullptr};
    return parts_.normalized.forEach(text, [&](size_t begin, size_t end, int32_t id) {
      const TextPiece piece = all.part(begin, end);
      return id < 0 ? encodePiece(piece, out) : out.add(id, placeOf(piece, 0, piece.text.size()));
    });
  }

  static TextRange placeOf(const TextPiece &piece, size_t begin, size_t end) {
    return piece.origins ? originOf(piece.origins, begin, end) : TextRange();
  }

  Status encodePiece(const TextPiece &piece, const Out &out) {
    const auto encode = [&](const TextPiece &word) {
      encodeWord(word, out);
      return Status::ok();
    };
    return parts_.preTokenizer ? parts_.preTokenizer->split(piece, encode) : encode(piece);
  }

  void encodeWord(const TextPiece &word, const Out &out) {
    constexpr size_t kLong = 128; // bytes: such a word hardly comes again
    WordTokens fresh;
    const WordTokens *tokens = word.text.size() > kLong ? nullptr : cache_.find(word.text, out.places != nullptr);
    if (!tokens) {
      parts_.model->tokenize(word.text, fresh.ids, out.places ? &fresh.ends : nullptr);
      tokens = word.text.size() > kLong ? &fresh : cache_.add(word.text, std::move(fresh));
    }
    out.ids.insert(out.ids.end(), tokens->ids.begin(), tokens->ids.end());
    uint32_t begin = 0;
    for (const uint32_t end : out.places ? std::span(tokens->ends) : std::span<const uint32_t>()) {
      out.places->push_back(placeOf(word, begin, end));
      begin = end;
    }
  }

  const TokenizerParts &parts_;
  WordCache cache_;
  TrackedText changed_;
};

class HuggingFaceTokenizer final : public Tokenizer {
public:
  explicit HuggingFaceTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {}
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<PartsEncoder>(parts_); }
  int64_t vocabulary() const override {
    return parts_.model->vocabulary() +
           std::ranges::count_if(parts_.added, [&](const auto &token) { return !parts_.model->idOf(token.first); });
  }
  std::optional<int32_t> endToken() const override { return parts_.end; }
  std::optional<int32_t> idOf(std::string_view token) const override {
    const auto added = findToken(parts_.added, token);
    return added ? added : parts_.model->idOf(token);
  }
  std::vector<std::string> texts() const override {
    std::vector<std::string> texts;
    const auto set = [&](int32_t id, std::string text) {
      if (size_t(id) >= texts.size())
        texts.resize(size_t(id) + 1);
      texts[size_t(id)] = std::move(text);
    };
    const bool givesBytes = parts_.preTokenizer && parts_.preTokenizer->givesBytes();
    parts_.model->forEach([&](std::string_view token, int32_t id) {
      const auto bytes = givesBytes ? bytesOfToken(token) : std::nullopt;
      set(id, bytes ? *bytes : withBlanks(token));
    });
    for (const auto &[token, id] : parts_.added)
      set(id, token);
    return texts;
  }

private:
  TokenizerParts parts_;
};

Result<TokenizerParts> readParts(const JsonPlace &json) {
  TokenizerParts parts;
  MGC_ASSIGN(normalizer, makeNormalizer(json["normalizer"]));
  MGC_ASSIGN(preTokenizer, makePreTokenizer(json["pre_tokenizer"]));
  MGC_ASSIGN(model, makeTokenModel(json["model"], preTokenizer && preTokenizer->givesBytes()));
  MGC_ASSIGN(added, readAddedTokens(json["added_tokens"]));
  for (const AddedToken &token : added) {
    TrackedText content;
    content.assign(token.content, /*isTracked=*/false);
    if (token.isNormalized && normalizer)
      MGC_TRY(normalizer->apply(content).at(token.where));
    (token.isNormalized ? parts.normalized : parts.raw).add(token, content.view());
    parts.added.insert_or_assign(token.content, token.id);
  }
  MGC_ASSIGN(around, readAround(json["post_processor"],
                                [&](int32_t id) { return hasTokenId(parts.added, id) || model->hasId(id); }));
  parts.normalizer = std::move(normalizer), parts.preTokenizer = std::move(preTokenizer);
  parts.model = std::move(model), parts.around = std::move(around);
  return parts;
}

constexpr int64_t kMostBytes = int64_t(1) << 30;

struct EndToken {
  std::string text, path; // path: of the file that names it
};

// eos_token: a text, or an object with its content; null or missing: the file does not name it.
Result<std::optional<EndToken>> readEndToken(const std::filesystem::path &folder) {
  for (const char *name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::string path = (folder / name).string();
    if (!isThere(path))
      continue;
    MGC_ASSIGN(text, readFile(path, kMostBytes));
    MGC_ASSIGN(json, parseJson(text).at(path));
    if (!json.is_object())
      return errorf("{}: is {}, expected an object", path, printable(json.dump()));
    const nlohmann::json end = json.value("eos_token", nlohmann::json());
    if (end.is_null())
      continue;
    const nlohmann::json token = end.is_object() ? end.value("content", nlohmann::json()) : end;
    if (!token.is_string())
      return errorf("{}: eos_token is {}, expected a token, or an object with it as \"content\"", path,
                    JsonPlace(end, path).shown());
    return std::optional(EndToken{token.get<std::string>(), path});
  }
  return std::optional<EndToken>();
}

// [["t", "h"], ..] of lines "t h"; the first line may name a version.
Result<nlohmann::json> readMerges(const std::string &path) {
  MGC_ASSIGN(text, readFile(path, kMostBytes));
  nlohmann::json merges = nlohmann::json::array();
  std::string line;
  std::istringstream lines(text);
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.ends_with('\r'))
      line.pop_back();
    if (line.empty() || (number == 1 && line.starts_with("#version")))
      continue;
    const size_t space = line.find(' ');
    if (space == 0 || space == std::string::npos || space + 1 == line.size() ||
        line.find(' ', space + 1) != std::string::npos)
      return errorf("{}: line {}: is {}, expected two tokens with a space between them", path, number, printable(line));
    merges.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return merges;
}

} // namespace

Result<std::unique_ptr<Tokenizer>> openGpt2Tokenizer(const std::string &vocabulary, const std::string &merges) {
  MGC_ASSIGN(text, readFile(vocabulary, kMostBytes));
  MGC_ASSIGN(tokens, parseJson(text).at(vocabulary));
  MGC_ASSIGN(pairs, readMerges(merges));
  const nlohmann::json json = {
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"model", {{"type", "BPE"}, {"vocab", std::move(tokens)}, {"merges", std::move(pairs)}}}};
  MGC_ASSIGN(parts, readParts(JsonPlace(json, fmt::format("{} with {}", vocabulary, merges))));
  parts.end = parts.model->idOf("<|endoftext|>");
  return std::unique_ptr<Tokenizer>(std::make_unique<HuggingFaceTokenizer>(std::move(parts)));
}

std::string tokenizerJsonOf(const std::string &path) {
  std::error_code ignored;
  const bool isFolder = std::filesystem::is_directory(path, ignored);
  return isFolder ? (std::filesystem::path(path) / "tokenizer.json").string() : path;
}

Result<std::unique_ptr<Tokenizer>> openHuggingFaceTokenizer(const std::string &path) {
  const std::filesystem::path file = tokenizerJsonOf(path);
  MGC_ASSIGN(text, readFile(file.string(), kMostBytes));
  MGC_ASSIGN(json, parseJson(text).at(file.string()));
  MGC_ASSIGN(parts, readParts(JsonPlace(json, file.string())));
  MGC_ASSIGN(endToken, readEndToken(file.parent_path()));
  if (endToken) {
    const auto added = findToken(parts.added, endToken->text);
    parts.end = added ? added : parts.model->idOf(endToken->text);
    if (!parts.end)
      return errorf("{}: eos_token is {}, which is no token of {}; expected one of its vocabulary or added_tokens",
                    endToken->path, printable(endToken->text), file.string());
  }
  return std::unique_ptr<Tokenizer>(std::make_unique<HuggingFaceTokenizer>(std::move(parts)));
}

} // namespace mgc
