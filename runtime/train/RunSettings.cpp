// See RunSettings.h.
#include "runtime/train/RunSettings.h"

#include "runtime/random/Philox.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace mgc {

namespace {

class SettingsMaker {
public:
  template <typename Value> void add(std::string_view flag, const Value &value) {
    settings_.emplace_back(flag, fmt::format("{}", value));
  }
  // Lists may be long: their length and a hash.
  template <typename Value>
  void addList(std::string_view flag, std::string_view what, std::span<const Value> values) {
    const std::string_view bytes(reinterpret_cast<const char *>(values.data()), values.size_bytes());
    settings_.emplace_back(flag, values.empty() ? "none"
                                                : fmt::format("{} {} with the hash {:016x}", values.size(),
                                                              what, hashName(bytes)));
  }
  Settings take() { return std::move(settings_); }

private:
  Settings settings_;
};

void addMasking(const MaskingOptions &masking, SettingsMaker &settings) {
  settings.add("--mlm-probability", masking.probability.value_or(kMaskProbability));
  settings.add("--mask-token-id", masking.maskToken.value_or(-1));
  settings.add("--cls-token-id", masking.clsToken.value_or(-1));
  settings.add("--sep-token-id", masking.sepToken.value_or(-1));
  settings.addList("--special-token-ids", "tokens", std::span(masking.specialTokens));
}

// The decay ends at the last step where nothing else is said, so that step counts.
void addSchedule(const OptimizerOptions &optimizer, int64_t length, SettingsMaker &settings) {
  const auto addLength = [&](std::string_view flag, int64_t value) {
    settings.add(fmt::format("{}-{}", flag, optimizer.bySamples ? "samples" : "iters"), value);
  };
  settings.add("--lr", optimizer.lr);
  settings.add("--min-lr", optimizer.minLr);
  settings.add("--lr-decay-style", optimizer.lrDecayStyle);
  if (optimizer.lrDecayStyle != "constant")
    addLength("--lr-decay", optimizer.lrDecay > 0 ? optimizer.lrDecay : length);
  addLength("--lr-warmup", optimizer.lrWarmup);
  settings.add("--lr-warmup-init", optimizer.lrWarmupInit);
  settings.add("--lr-wsd-decay-style", optimizer.lrWsdDecayStyle);
  addLength("--lr-wsd-decay", optimizer.lrWsdDecay);
}

// The order of the samples follows from how many are needed, so that the number of steps counts. Of files the name alone: data
// may be moved.
void addCorpus(const CorpusOptions &corpus, const TrainingOptions &options, SettingsMaker &settings) {
  const BlendWords &blend =
      corpus.files.isPerSplit() ? corpus.files.perSplit[size_t(Split::train)] : corpus.files.blend;
  std::string words;
  for (size_t i = 0; i < blend.prefixes.size(); ++i)
    words += fmt::format("{}{}{}", words.empty() ? "" : " ",
                         blend.weights.empty() ? "" : fmt::format("{} ", blend.weights[i]),
                         std::filesystem::path(blend.prefixes[i]).filename().string());
  settings.add(corpus.files.isPerSplit() ? "--train-data-path" : "--data-path", words);
  if (const auto &part = corpus.files.split.parts[size_t(Split::train)]; !corpus.files.isPerSplit() && part)
    settings.add("--split", fmt::format("{} to {} of training", part->begin, part->end));
  if (options.trainSamples)
    settings.add("--train-samples", *options.trainSamples);
  else
    settings.add("--train-iters", options.trainIters);
  settings.add("--pad-token-id", corpus.padToken.value_or(-1));
  settings.add("--dataloader-inter-document-masking", corpus.separatesSequences);
  settings.add("--dataloader-type", corpus.schedule == SampleOrderKind::single ? "single" : "cyclic");
  settings.add("--no-data-sharding", corpus.noSharding);
}

} // namespace

Settings dataSettings(const TrainingOptions &options) {
  SettingsMaker settings;
  settings.add("--seed", options.seed);
  settings.add("--eod-token-id", options.documents.endToken.value_or(-1));
  settings.add("--eod-mask-loss", options.documents.masksEnds);
  settings.add("--sft", options.sft);
  settings.add("--tokenizer-type", options.tokenizer.type.empty() ? "none" : options.tokenizer.type);
  settings.add("--tokenizer-model", std::filesystem::path(options.tokenizer.model).filename().string());
  settings.add("--chat-template", options.chatTemplate);
  addMasking(options.masking, settings);
  if (options.rampup)
    settings.add("--rampup-batch-size", fmt::format("{} {} {}", options.rampup->start,
                                                    options.rampup->increment, options.rampup->samples));
  if (options.corpus)
    addCorpus(*options.corpus, options, settings);
  return settings.take();
}

Settings optimizerSettings(const TrainingOptions &options, int64_t rates) {
  const OptimizerOptions &optimizer = options.optimizer;
  SettingsMaker settings;
  if (optimizer.lrList.empty())
    addSchedule(optimizer, options.scheduleLength(), settings);
  else
    settings.addList("--lr-list", "rates",
                     std::span(optimizer.lrList).first(std::min(size_t(rates), optimizer.lrList.size())));
  settings.add("--weight-decay", optimizer.weightDecay);
  settings.add("--adam-beta1", optimizer.beta1);
  settings.add("--adam-beta2", optimizer.beta2);
  settings.add("--adam-eps", optimizer.eps);
  settings.add("--clip-grad", optimizer.clipGrad);
  settings.add("--moe-router-bias-update-rate", optimizer.routerBiasRate);
  return settings.take();
}

void compareSettings(const Settings &found, const Settings &expected, std::string_view advice,
                     Problems &problems) {
  const std::map<std::string, std::string> here(found.begin(), found.end()),
      there(expected.begin(), expected.end());
  std::set<std::string> flags;
  for (const Settings *settings : {&found, &expected})
    for (const auto &entry : *settings)
      flags.insert(entry.first);
  const auto valueIn = [](const auto &settings, const std::string &flag) {
    const auto entry = settings.find(flag);
    return entry == settings.end() ? std::string("not there") : entry->second;
  };
  for (const std::string &flag : flags)
    problems.expect(valueIn(here, flag) == valueIn(there, flag),
                    "  {}: found {}, expected {}, as in the checkpoint; {}", flag, valueIn(here, flag),
                    valueIn(there, flag), advice);
}

} // namespace mgc
