// See RunCurves.h.
#include "tools/watch/RunCurves.h"

#include "runtime/train/LossLog.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sys/stat.h>

namespace mgc::tools {

namespace {

using Json = nlohmann::json;

// A line of the log may have been changed by hand.
Json parsed(const std::string &line) { return Json::parse(line, nullptr, false); }

bool isOfStep(std::string_view line) { return line.find("\"loss\":") != line.npos; }
bool isOfValidation(std::string_view line) { return line.find("\"validation_loss\":") != line.npos; }

} // namespace

Status RunCurves::readLog(const std::string &path, int64_t step) {
  struct stat file{};
  if (step == 0 || ::stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) // a pipe has no lines to read again
    return Status::ok();
  std::ifstream log(path);
  for (std::string line; std::getline(log, line);)
    addLine(std::move(line));
  const bool isRead = log.eof() && !log.bad(), isWhole = last_ && last_->step == step - 1;
  if (isRead && (isWhole || (!last_ && validation_.empty())))
    return Status::ok();
  const std::string end = last_ ? fmt::format("ends with step {}", last_->step) : "has no step";
  *this = RunCurves();
  return !isRead
             ? errorf("{}: cannot be read, so the curves begin with this run", path)
             : errorf("{}: {}, and this run begins with step {}, so the curves begin with this run", path, end, step);
}

void RunCurves::addLine(std::string line) {
  const std::optional<int64_t> step = stepOf(line);
  if (!step || *step < 0)
    return;
  if (isOfStep(line))
    return addStep(*step, std::move(line));
  if (!isOfValidation(line))
    return;
  const Json record = parsed(line);
  const Json loss = record.is_object() ? record.value("validation_loss", Json()) : Json();
  addValidation(*step, loss.is_number() ? loss.get<double>() : std::numeric_limits<double>::quiet_NaN());
}

void RunCurves::addStep(int64_t step, std::string line) {
  if (last_ && step <= last_->step) {
    cutSteps(step);
    cutValidation(step);
  }
  last_ = Point{step, std::move(line)};
  if (points_.empty() || (step - points_.front().step) % stride_ == 0)
    points_.push_back(*last_);
  thin();
}

// An evaluation follows its step, so steps after it that are there already are superseded too.
void RunCurves::addValidation(int64_t step, double loss) {
  cutSteps(step + 1);
  cutValidation(step);
  validation_.emplace_back(step, loss);
}

void RunCurves::cutSteps(int64_t step) {
  if (!last_ || last_->step < step)
    return;
  std::erase_if(points_, [&](const Point &point) { return point.step >= step; });
  last_ = points_.empty() ? std::nullopt : std::optional(points_.back());
  if (points_.empty())
    stride_ = 1;
}

void RunCurves::cutValidation(int64_t step) {
  while (!validation_.empty() && validation_.back().first >= step)
    validation_.pop_back();
}

void RunCurves::thin() {
  while (points_.size() > kMostPoints) {
    stride_ *= 2;
    std::erase_if(
        points_, [&, first = points_.front().step](const Point &point) { return (point.step - first) % stride_ != 0; });
  }
}

Json RunCurves::steps() const {
  Json steps = Json::array();
  const auto add = [&](const Point &point) {
    if (Json record = parsed(point.line); record.is_object())
      steps.push_back(std::move(record));
  };
  for (const Point &point : points_)
    add(point);
  if (last_ && last_->step != points_.back().step)
    add(*last_);
  return steps;
}

Json RunCurves::validation() const {
  Json losses = Json::array();
  const size_t stride = (validation_.size() + kMostPoints - 1) / kMostPoints;
  for (size_t i = 0; i < validation_.size(); ++i)
    if (i % stride == 0 || i + 1 == validation_.size())
      losses.push_back({validation_[i].first, validation_[i].second});
  return losses;
}

} // namespace mgc::tools
