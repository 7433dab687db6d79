// See ShowData.h.
#include "tools/ShowData.h"

#include "runtime/data/preprocess/LineReader.h"
#include "tools/process/Process.h"

#include <algorithm>

namespace mgc::tools {

namespace {

using Json = nlohmann::json;

// A document of a sample, without the padding behind it.
struct ShownDocument {
  size_t begin = 0, end = 0;
};

plan::Plan planOf(const ShowOptions &options, int64_t vocabulary) {
  plan::Plan plan;
  plan.globalBatchSize = plan.microBatchSize = plan.microbatches = 1;
  plan.sequenceLength = options.length, plan.vocabulary = vocabulary;
  plan.stages.resize(1);
  if (options.isPacked)
    plan.stages[0].inputs.push_back({.kind = plan::Input::Kind::documentStarts});
  return plan;
}

// Each token is learned whose own label, at the place before it, is not -100.
bool isLearned(const GlobalBatch &batch, size_t i) { return i > 0 && batch.labels[i - 1] != kIgnoredLabel; }

std::vector<ShownDocument> partsOf(const GlobalBatch &batch) {
  size_t end = batch.tokens.size(); // behind it is padding: tokens that are alike, without a label before or at them
  while (end > 0 && batch.labels[end - 1] == kIgnoredLabel && !isLearned(batch, end - 1) &&
         batch.tokens[end - 1] == batch.tokens.back())
    --end;
  if (end < batch.tokens.size() && end > 0)
    end += batch.labels[end - 1] != kIgnoredLabel;
  std::vector<ShownDocument> parts;
  for (size_t i = 0; i < end; ++i)
    if (parts.empty() || (!batch.starts.empty() && batch.starts[i] == static_cast<int32_t>(i)))
      parts.push_back({i, i + 1});
    else
      parts.back().end = i + 1;
  return parts;
}

std::string textOf(const std::vector<std::string> &texts, int32_t id) {
  return static_cast<size_t>(id) < texts.size() ? texts[static_cast<size_t>(id)] : std::string();
}

// Whole characters: bytes of a token of bytes may be parts of one.
Json jsonOf(std::string text) {
  return Json::parse(Json(std::move(text)).dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json jsonOf(const GlobalBatch &batch, const ShownDocument &part, const std::vector<std::string> &texts) {
  Json ids = Json::array(), learned = Json::array();
  std::string text;
  for (size_t i = part.begin; i < part.end; ++i) {
    ids.push_back(batch.tokens[i]), learned.push_back(int(isLearned(batch, i) && i > part.begin));
    text += textOf(texts, batch.tokens[i]);
  }
  return {{"begin", part.begin}, {"end", part.end}, {"ids", ids}, {"learned", learned}, {"text", jsonOf(text)}};
}

void print(const Json &document, const std::vector<std::string> &texts) {
  std::string marked, ids;
  bool isInside = false;
  for (size_t i = 0; i < document["ids"].size(); ++i) {
    const bool learned = document["learned"][i] == 1;
    if (learned != isInside)
      marked += learned ? "\u27e6" : "\u27e7";
    isInside = learned;
    marked += textOf(texts, document["ids"][i].get<int32_t>());
    ids += fmt::format("{}{}{}", i > 0 ? " " : "", document["ids"][i].get<int32_t>(), learned ? "*" : "");
  }
  say(stdout, "  tokens {} to {}\n{}{}\n  ids {}\n", document["begin"].get<size_t>(), document["end"].get<size_t>(),
      marked, isInside ? "\u27e7" : "", ids);
}

Result<bool> hasConversations(const std::string &path) {
  if (path.ends_with(".parquet"))
    return true;
  MGC_ASSIGN(lines, LineReader::open({path}));
  MGC_ASSIGN(block, lines.read({}, 1));
  bool found = false;
  if (block)
    MGC_TRY(forEachLine(*block, [&](std::string_view line, int64_t number) {
      const Result<Json> json = parseJson(line);
      found = found || (number == 0 && !(json.isOk() && json->is_object() && json->contains("text")));
      return Status::ok();
    }));
  return found;
}

Result<std::unique_ptr<DataSource>> open(ShowOptions &options, const plan::Plan &plan) {
  std::error_code ignored;
  const FoundPrefix found = findPrefix(options.data);
  if (!std::filesystem::exists(options.data, ignored) && std::filesystem::exists(found.prefix + ".idx", ignored)) {
    if (!found.note.empty())
      say(stderr, "mgc-data: {}\n", found.note);
    CorpusOptions corpus;
    corpus.files.perSplit[static_cast<size_t>(Split::train)].prefixes = {found.prefix};
    corpus.separatesSequences = options.isPacked;
    options.reading.tokenizerFiles = {};
    return openCorpus(corpus, {Split::train, options.samples}, plan, options.seed, options.reading);
  }
  return openData(options.data, plan, options.seed, options.reading);
}

} // namespace

Status showSamples(ShowOptions options) {
  MGC_ASSIGN(tokenizer, openTokenizer(options.reading.tokenizerFiles));
  if (options.data.find(".jsonl") != std::string::npos || options.data.ends_with(".parquet"))
    MGC_SET(options.reading.chats.areRead, hasConversations(options.data));
  const plan::Plan plan = planOf(options, tokenizer->vocabulary());
  const std::vector<std::string> texts = tokenizer->texts();
  MGC_ASSIGN(source, open(options, plan));
  MGC_ASSIGN(batch, GlobalBatch::create(plan));
  if (!options.isJson)
    say(stdout, "{}\n", source->summary());
  for (int64_t sample = 0; sample < options.samples; ++sample) {
    if (const auto epochs = source->epochsOf(sample); epochs && *epochs >= 1)
      break;
    MGC_TRY(source->batch(sample, batch));
    const std::vector<ShownDocument> parts = partsOf(batch);
    Json documents = Json::array();
    for (const ShownDocument &part : parts)
      documents.push_back(jsonOf(batch, part, texts));
    const std::string from = source->describeBatch(sample);
    if (options.isJson) {
      say(stdout, "{}\n", Json{{"sample", sample}, {"data", from}, {"documents", documents}}.dump());
      continue;
    }
    const size_t end = parts.empty() ? 0 : parts.back().end;
    say(stdout,
        "\nsample {}: {}; {} documents, {} tokens and {} of padding; what is learned stands in \u27e6\u27e7 and has "
        "*\n",
        sample, from, parts.size(), end, batch.tokens.size() - end);
    for (const Json &document : documents)
      print(document, texts);
  }
  return Status::ok();
}

} // namespace mgc::tools
