// See RunLog.h.
#include "tools/compare/RunLog.h"

#include "runtime/base/File.h"
#include "runtime/base/Json.h"

#include <cmath>

namespace mgc::tools {

namespace {

constexpr int64_t kMostBytes = int64_t(1) << 31;

double numberIn(const nlohmann::json &line, const char *name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_number() ? found->get<double>() : kNoNumber;
}

// Drops what a run logged that ended behind the step with which another one went on.
template <typename T> void cut(std::vector<T> &list, int64_t step) {
  while (!list.empty() && list.back().step >= step)
    list.pop_back();
}

void addStep(RunLog &log, const nlohmann::json &line, int64_t step) {
  cut(log.steps, step), cut(log.validation, step);
  const double tokens = numberIn(line, "tokens"), seconds = numberIn(line, "seconds");
  LoggedStep logged{step, numberIn(line, "loss"), numberIn(line, "grad_norm"), 0, kNoNumber};
  logged.tokens = (log.steps.empty() ? 0 : log.steps.back().tokens) + (std::isnan(tokens) ? 0 : tokens);
  if (seconds > 0)
    logged.tokensPerSecond = tokens / seconds;
  log.steps.push_back(logged);
}

// Whether the line is one of a log.
bool addLine(RunLog &log, std::string_view text) {
  const auto line = nlohmann::json::parse(text, nullptr, false);
  const auto step = line.is_object() && line.contains("step") ? jsonSize(line["step"]) : std::nullopt;
  if (!step)
    return false;
  if (line.contains("loss"))
    addStep(log, line, *step);
  if (line.contains("validation_loss")) {
    cut(log.validation, *step);
    log.validation.push_back(
        {*step, numberIn(line, "validation_loss"), log.steps.empty() ? 0 : log.steps.back().tokens});
  }
  return true;
}

} // namespace

Result<RunLog> readRunLog(const std::string &path) {
  MGC_ASSIGN(text, readFile(path, kMostBytes));
  RunLog log{path, {}, {}};
  int64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const bool isLast = end == text.size();
    if (!addLine(log, std::string_view(text).substr(begin, end - begin)) && !isLast)
      return errorf("{}: line {}: is no line of a log, expected a file of mgrun --log: {{\"step\": .., \"loss\": ..}}",
                    path, number);
    begin = end + 1;
  }
  if (log.steps.empty())
    return errorf("{}: has no step, expected a file of mgrun --log: {{\"step\": .., \"loss\": ..}}", path);
  return log;
}

} // namespace mgc::tools
