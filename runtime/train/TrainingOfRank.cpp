// See TrainingOfRank.h.
#include "runtime/train/TrainingOfRank.h"

#include "runtime/train/RunOptions.h"

namespace mgc {

TrainingOptions optionsOfRank(TrainingOptions options) {
  const Launch &launch = options.launch;
  if (launch.isAlone())
    return options;
  for (std::optional<std::string> *path : {&options.trace, &options.profileJson})
    if (*path)
      *path = pathOfRank(**path, launch.rank);
  if (launch.rank != 0)
    options.log.reset(), options.tensorboard.reset();
  return options;
}

std::string pathOfRank(const std::string &path, int64_t rank) {
  std::filesystem::path changed = path;
  const std::string ending = changed.extension().string();
  return changed.replace_extension(fmt::format("rank{}{}", rank, ending)).string();
}

RunIdentity identityOf(const TrainingOptions &options, const plan::Plan &plan, uint64_t planHash,
                       const std::string &start) {
  std::vector<std::string> lines = {"--load = " + start};
  for (const RunOption &option : runOptions())
    if (option.isCompared())
      lines.push_back(fmt::format("{} = {}", option.flag(), shortened(option.textIn(options).value_or("none"))));
  return {options.launch.size, plan.version, planHash, std::move(lines)};
}

} // namespace mgc
