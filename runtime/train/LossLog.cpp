// See LossLog.h.
#include "runtime/train/LossLog.h"

#include "runtime/base/File.h"
#include "runtime/base/OutputFile.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace mgc {

namespace {

constexpr std::string_view kBeginning = "{\"step\":";

Status failed(const std::string &path) { return errorf("{}: cannot be written: {}", path, std::strerror(errno)); }

// The last line before `end`, with its end if it has one; "" at the beginning.
Result<std::string> lineBefore(int descriptor, int64_t end) {
  for (int64_t length = 1 << 10;; length *= 2) {
    std::string text(static_cast<size_t>(std::min(end, length)), '\0');
    if (::pread(descriptor, text.data(), text.size(), end - std::ssize(text)) != std::ssize(text))
      return Status::error(std::strerror(errno));
    const size_t begin = text.size() < 2 ? std::string::npos : text.rfind('\n', text.size() - 2);
    if (begin != std::string::npos)
      return text.substr(begin + 1);
    if (std::ssize(text) == end)
      return text;
  }
}

bool isRepeated(std::string_view line, const LogContinuation &continued) {
  const std::optional<int64_t> step = stepOf(line);
  if (!step || *step + 1 < continued.step)
    return false;
  const auto isOf = [&](const std::string &evaluation) {
    return line.find(fmt::format("\"{}_loss\":", evaluation)) != line.npos;
  };
  return *step >= continued.step || std::ranges::any_of(continued.evaluations, isOf);
}

} // namespace

std::optional<int64_t> stepOf(std::string_view line) {
  int64_t step = 0;
  if (!line.starts_with(kBeginning) ||
      std::from_chars(line.data() + kBeginning.size(), line.data() + line.size(), step).ec != std::errc())
    return std::nullopt;
  return step;
}

Status LossLog::open(const std::string &path, const std::optional<LogContinuation> &continued) {
  MGC_ASSIGN(bytes, openFile(path, O_CREAT));
  return bytes > 0 ? mend(bytes, continued) : Status::ok();
}

Status LossLog::verify(const std::string &path) {
  return isThere(path) ? LossLog().openFile(path, 0).status()
                       : verifyCreatable({"--log", "a log", nullptr}, path, true);
}

Result<int64_t> LossLog::openFile(const std::string &path, int flags) {
  path_ = path;
  struct stat file{};
  const bool isRegular = ::stat(path.c_str(), &file) != 0 || S_ISREG(file.st_mode);
  descriptor_ = Descriptor(::open(path.c_str(), (isRegular ? O_RDWR : O_WRONLY) | O_APPEND | O_CLOEXEC | flags, 0666));
  if (!descriptor_.isOpen())
    return failed(path);
  if (isRegular && !descriptor_.lock())
    return errorf("--log {}: another run writes this log, expected another name", path);
  if (!isRegular || ::fstat(descriptor_.number(), &file) != 0 || file.st_size == 0)
    return 0;
  std::array<char, kBeginning.size()> beginning{};
  (void)!::pread(descriptor_.number(), beginning.data(), beginning.size(), 0);
  if (std::string_view(beginning.data(), beginning.size()) != kBeginning)
    return errorf("--log {}: holds something else than the lines of a log, expected a new name or a log, which is "
                  "gone on with",
                  path);
  return int64_t(file.st_size);
}

// The last line may be unfinished: of a run that was killed while it wrote.
Status LossLog::mend(int64_t size, const std::optional<LogContinuation> &continued) const {
  bool lacksEnd = false;
  int64_t end = size;
  while (end > 0) {
    MGC_ASSIGN(line, lineBefore(descriptor_.number(), end));
    const bool isWhole = line.ends_with('\n') || nlohmann::json::accept(line);
    if (isWhole && !(continued && isRepeated(line, *continued))) {
      lacksEnd = !line.ends_with('\n');
      break;
    }
    end -= std::ssize(line);
  }
  if (end < size && ::ftruncate(descriptor_.number(), end) != 0)
    return failed(path_);
  return lacksEnd ? append("\n") : Status::ok();
}

Status LossLog::append(const std::string &text) const {
  return appendWhole(descriptor_.number(), text) ? Status::ok() : failed(path_);
}

// Whether the log is a regular file to which no name leads any more.
bool LossLog::isDeleted() const {
  struct stat file{};
  return descriptor_.isOpen() && ::fstat(descriptor_.number(), &file) == 0 && file.st_nlink == 0;
}

Status LossLog::finish() const {
  return isDeleted() ? errorf("{}: was deleted during the training", path_) : Status::ok();
}

std::string lineOf(const TrainingStep &step) {
  nlohmann::ordered_json line = {{"step", step.step}, {"loss", step.result.loss}};
  if (!step.result.terms.empty())
    line["cross_entropy"] = step.result.crossEntropy;
  for (const LossTerm &term : step.result.terms)
    line[std::string(term.name)] = term.value;
  line["grad_norm"] = step.result.gradientNorm;
  for (const LayerNorm &norm : step.norms)
    line["grad_norm_by_layer"][norm.layer] = norm.norm;
  line["lr"] = step.lr;
  line["tokens"] = static_cast<int64_t>(step.result.tokens);
  for (const ExpertLoad &load : step.loads)
    line["tokens_per_expert"][load.router] = {{"min", load.least}, {"mean", load.mean}, {"max", load.most}};
  if (!step.result.isUpdated)
    line["skipped"] = true;
  line["seconds"] = step.seconds;
  if (step.throughput) {
    line["tokens_per_second_per_device"] = step.throughput->tokens;
    line["tflops_per_device"] = step.throughput->flops * 1e-12;
    if (step.throughput->utilisation > 0)
      line["mfu"] = step.throughput->utilisation;
  }
  for (const StepTimer &timer : step.timers)
    line["timers"][timer.name] = {{"min", timer.least()}, {"max", timer.most()}};
  if (step.result.hostSeconds > 0)
    line["host_seconds"] = step.result.hostSeconds;
  return line.dump();
}

std::string lineOf(const EvaluationResult &evaluation) {
  const auto named = [&](std::string_view name) { return fmt::format("{}_{}", evaluation.what, name); };
  return nlohmann::ordered_json{{"step", evaluation.step},
                                {named("loss"), evaluation.loss},
                                {named("perplexity"), evaluation.perplexity()},
                                {named("tokens"), static_cast<int64_t>(evaluation.tokens)},
                                {"seconds", evaluation.seconds}}
      .dump();
}

Status LossLog::write(const std::string &line) {
  if (!descriptor_.isOpen())
    return Status::ok();
  MGC_TRY(finish());
  return append(line + "\n");
}

} // namespace mgc
