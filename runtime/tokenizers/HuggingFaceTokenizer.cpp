// See HuggingFaceTokenizer.h.
#include "runtime/tokenizers/HuggingFaceTokenizer.h"

#include "runtime/base/File.h"
#include "runtime/base/Utf8.h"
#include "runtime/tokenizers/AddedTokens.h"
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
class WordCache {
public:
  const std::vector<int32_t> *find(std::string_view word) const {
    const auto found = ids_.find(word);
    return found == ids_.end() ? nullptr : &found->second;
  }
  void add(std::string_view word, std::span<const int32_t> ids) {
    constexpr size_t kMostBytes = 64 << 20;
    bytes_ += word.size() + ids.size_bytes() + 128;
    if (bytes_ > kMostBytes)
      ids_.clear(), bytes_ = 0;
    ids_.emplace(word, std::vector(ids.begin(), ids.end()));
  }

private:
  std::unordered_map<std::string, std::vector<int32_t>, TextHash, std::equal_to<>> ids_;
  size_t bytes_ = 0;
};

class PartsEncoder final : public Encoder {
public:
  explicit PartsEncoder(const TokenizerParts &parts) : parts_(parts) {}

  Status encode(std::string_view text, bool special, std::vector<int32_t> &ids) override {
    if (const auto at = firstInvalidUtf8(text))
      return errorf("byte {:#04x} at position {} is not UTF-8", static_cast<unsigned char>(text[*at]), *at);
    if (special)
      ids.insert(ids.end(), parts_.around.before.begin(), parts_.around.before.end());
    MGC_TRY(parts_.raw.forEach(text, [&](size_t begin, size_t end, int32_t id) {
      return id >= 0 ? append(id, ids) : encodeBetween(text.substr(begin, end - begin), begin == 0, ids);
    }));
    if (special)
      ids.insert(ids.end(), parts_.around.after.begin(), parts_.around.after.end());
    return Status::ok();
  }

private:
  static Status append(int32_t id, std::vector<int32_t> &ids) {
    ids.push_back(id);
    return Status::ok();
  }

  Status encodeBetween(std::string_view text, bool isFirst, std::vector<int32_t> &ids) {
    if (parts_.normalizer) {
      changed_ = text;
      MGC_TRY(parts_.normalizer->apply(changed_));
      text = changed_;
    }
    return parts_.normalized.forEach(text, [&](size_t begin, size_t end, int32_t id) {
      return id >= 0 ? append(id, ids) : encodePiece({text.substr(begin, end - begin), isFirst && begin == 0}, ids);
    });
  }

  Status encodePiece(const TextPiece &piece, std::vector<int32_t> &ids) {
    const auto encode = [&](const TextPiece &word) {
      encodeWord(word.text, ids);
      return Status::ok();
    };
    return parts_.preTokenizer ? parts_.preTokenizer->split(piece, encode) : encode(piece);
  }

  void encodeWord(std::string_view word, std::vector<int32_t> &ids) {
    constexpr size_t kLong = 128; // bytes: such a word hardly comes again
    if (word.size() > kLong)
      return parts_.model->tokenize(word, ids);
    if (const auto *known = cache_.find(word)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return;
    }
    const size_t begin = ids.size();
    parts_.model->tokenize(word, ids);
    cache_.add(word, std::span(ids).subspan(begin));
  }

  const TokenizerParts &parts_;
  WordCache cache_;
  std::string changed_;
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
    std::string content = token.content;
    if (token.isNormalized && normalizer)
      MGC_TRY(normalizer->apply(content).at(token.where));
    (token.isNormalized ? parts.normalized : parts.raw).add(token, content);
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
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored))
      continue;
    MGC_ASSIGN(text, readFile(path, kMostBytes));
    MGC_ASSIGN(json, parseJson(text).at(path));
    const nlohmann::json end = json.is_object() ? json.value("eos_token", nlohmann::json()) : nlohmann::json();
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
