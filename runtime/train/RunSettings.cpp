// See RunSettings.h.
#include "runtime/train/RunSettings.h"

#include "runtime/train/RunOptions.h"

#include <map>
#include <set>

namespace mgc {

Settings dataSettings(const TrainingOptions &options) {
  return options.hasCorpus() ? settingsOf(options, {Agrees::data, Agrees::contents, Agrees::corpus})
                             : settingsOf(options, {Agrees::data, Agrees::contents});
}

Settings optimizerSettings(const TrainingOptions &options, int64_t rates) {
  Settings settings = settingsOf(options, {Agrees::optimizer});
  for (auto &[flag, value] : settings)
    if (flag == "--lr-list")
      value = textOfRates(options, rates);
  return settings;
}

Settings notedSettings(const TrainingOptions &options) {
  return settingsOf(options, {Agrees::noted, Agrees::evaluation});
}

std::vector<std::string> changesOf(const Settings &found, const Settings &checkpoint) {
  std::vector<std::string> lines;
  const std::map<std::string, std::string> there(checkpoint.begin(), checkpoint.end());
  for (const auto &[flag, value] : found)
    if (const auto other = there.find(flag); other != there.end() && other->second != value)
      lines.push_back(fmt::format("{}: {}, and {} in the checkpoint", flag, value, other->second));
  return lines;
}

void compareSettings(const Settings &found, const Settings &expected, std::string_view advice, Problems &problems) {
  const std::map<std::string, std::string> here(found.begin(), found.end()), there(expected.begin(), expected.end());
  std::set<std::string> flags;
  for (const Settings *settings : {&found, &expected})
    for (const auto &entry : *settings)
      flags.insert(entry.first);
  for (const RunOption &option : runOptions())
    if (option.agrees == Agrees::contents)
      flags.erase(option.flag());
  // Facts of DataSource::identity; the checkpoint may be of a version that knew fewer.
  std::erase_if(flags, [&](const std::string &fact) {
    return !fact.starts_with("--") && !(here.contains(fact) && there.contains(fact));
  });
  const auto valueIn = [](const auto &settings, const std::string &flag) {
    const auto entry = settings.find(flag);
    return entry == settings.end() ? "not there" : entry->second.empty() ? "none" : entry->second;
  };
  for (const std::string &flag : flags)
    problems.expect(valueIn(here, flag) == valueIn(there, flag),
                    "  {}: found {}, expected {}, as in the checkpoint; {}", flag, valueIn(here, flag),
                    valueIn(there, flag), advice);
}

} // namespace mgc
