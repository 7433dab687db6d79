// See CheckpointSaver.h. Processes talk over the store alone, so an extra thread can save while the ranks train.
#include "runtime/train/CheckpointSaver.h"

#include <sstream>
#include <sys/resource.h>

namespace mgc {

namespace {

constexpr std::string_view kThere = "there", kBegun = "begun"; // the folder of a checkpoint
constexpr std::string_view kWritten = "written", kFailed = "failed";

// The files of a rank, or why there are none, as text: "written" or "failed", then a line for each file or the error.
std::string printReport(const Result<std::vector<CheckpointFile>> &files) {
  if (!files.isOk())
    return fmt::format("{}\n{}", kFailed, files.status().message().substr(0, 4096));
  std::string text(kWritten);
  for (const CheckpointFile &file : *files)
    text += fmt::format("\n{} {} {}", file.name, file.bytes, file.checksum);
  return text;
}

Result<std::vector<CheckpointFile>> readReport(const std::string &text) {
  std::istringstream lines(text);
  std::string first;
  std::getline(lines, first);
  if (first != kWritten)
    return Status::error(text.substr(std::min(text.size(), first.size() + 1)));
  std::vector<CheckpointFile> files;
  for (CheckpointFile file; lines >> file.name >> file.bytes >> file.checksum;)
    files.push_back(file);
  return files;
}

} // namespace

CheckpointSaver::CheckpointSaver(Engine &engine, Processes *processes, std::string folder,
                                 std::optional<CheckpointFolder> completes)
    : engine_(engine), processes_(processes), folder_(std::move(folder)), completes_(std::move(completes)) {
  files_.resize(engine_.arenas().size());
  engine_.onRanks([&](int64_t rank) { files_[rank].emplace(engine_.plan(), rank, engine_.arenas()); });
}

Status CheckpointSaver::onFiles(Status (StateFiles::*call)(int threads)) {
  std::vector<Status> called(files_.size(), Status::ok());
  engine_.onRanks([&](int64_t rank) { called[rank] = ((*files_[rank]).*call)(engine_.threadsPerRank()); });
  for (Status &one : called)
    MGC_TRY(std::move(one));
  return Status::ok();
}

Status CheckpointSaver::reserveCopies() { return onFiles(&StateFiles::reserveCopy); }

CheckpointSaver::~CheckpointSaver() { (void)finish(); }

// A run whose batch grows has a saver for each size.
std::string CheckpointSaver::keyOf(std::string_view what) const {
  return fmt::format("checkpoint {} of batches of {}: {}", saves_, engine_.plan().globalBatchSize, what);
}

Status CheckpointSaver::finish() {
  if (!thread_.joinable())
    return Status::ok();
  thread_.join();
  return std::exchange(status_, Status::ok());
}

// Nobody writes before the folder is there. Whether there is something to save.
Result<bool> CheckpointSaver::begin(int64_t step) {
  const auto make = [&]() -> Result<std::string> {
    if (completes_->has(step)) {
      const Status settled = completes_->settle();
      return settled.isOk() ? std::string(kThere) : settled.message();
    }
    const Status begun = completes_->begin(step);
    return begun.isOk() ? std::string(kBegun) : begun.message();
  };
  ++saves_;
  MGC_ASSIGN(own, isWriter() ? make() : std::string());
  std::vector<std::string> answers = {own};
  if (processes_)
    MGC_SET(answers, processes_->store().gather(keyOf("folder"), processes_->rank(), processes_->size(), own,
                                                processes_->deadline()));
  const std::string &answer = answers.front();
  if (answer != kThere && answer != kBegun)
    return Status::error(answer);
  return answer == kBegun;
}

// This thread takes the gaps of the ranks' threads, and where there are none a tenth of a core. Less could be none at all, and a
// save that takes longer than --timeout fails.
static void yieldToTraining() {
  constexpr int kNice = 10;
  (void)::setpriority(PRIO_PROCESS, 0, kNice); // Linux: of the calling thread alone
}

Status CheckpointSaver::save(CheckpointRecord record, bool isConcurrent) {
  MGC_ASSIGN(isNew, begin(record.step));
  if (!isNew)
    return Status::ok();
  const Status downloaded = engine_.download(Part::state);
  if (!downloaded.isOk())
    return end(std::move(record), downloaded);
  if (!isConcurrent)
    return write(std::move(record), Source::memory, false);
  if (const Status copied = onFiles(&StateFiles::copy); !copied.isOk())
    return end(std::move(record), copied);
  hasEnded_ = false;
  thread_ = std::thread([this, record = std::move(record)] {
    yieldToTraining();
    status_ = write(record, Source::copy, true);
    hasEnded_ = true;
  });
  return Status::ok();
}

Result<std::vector<CheckpointFile>> CheckpointSaver::writeFiles(const std::string &staging, Source source,
                                                                bool isConcurrent) {
  std::vector<Result<std::vector<CheckpointFile>>> written(files_.size(), std::vector<CheckpointFile>());
  const std::function<void(int64_t)> writeOf = [&](int64_t rank) {
    if (files_[rank])
      written[rank] = files_[rank]->write(staging, source);
  };
  if (isConcurrent)
    for (size_t rank = 0; rank < files_.size(); ++rank)
      writeOf(int64_t(rank));
  else
    engine_.onRanks(writeOf);
  std::vector<CheckpointFile> files;
  for (Result<std::vector<CheckpointFile>> &one : written) {
    MGC_TRY(Status(one.status()));
    std::ranges::move(*one, std::back_inserter(files));
  }
  return files;
}

Status CheckpointSaver::write(CheckpointRecord record, Source source, bool isConcurrent) {
  const std::string staging = CheckpointFolder::stagingOf(folder_, record.step);
  return end(std::move(record), writeFiles(staging, source, isConcurrent));
}

Status CheckpointSaver::end(CheckpointRecord record, const Files &own) {
  if (processes_)
    return completeTogether(std::move(record), own);
  if (own.isOk())
    record.files = *own;
  return completeOrDiscard(record, own.status());
}

Status CheckpointSaver::completeOrDiscard(const CheckpointRecord &record, const Status &written) {
  const Status completed = written.isOk() ? completes_->complete(record, engine_.plan().modelConfig) : written;
  if (!completed.isOk())
    completes_->discard(record.step);
  return completed;
}

Status CheckpointSaver::completeTogether(CheckpointRecord record, const Files &own) {
  const auto report = [&](const Files &files) {
    return processes_->store().gatherToFirst(keyOf("reports"), processes_->rank(), processes_->size(),
                                             printReport(files), processes_->deadline());
  };
  if (!isWriter()) {
    if (const Status told = report(own).status(); !told.isOk()) // too long, or the store is full
      MGC_TRY(report(told).status());
    return own.status();
  }
  const Result<std::vector<std::string>> reports = report(own);
  const Status written = reports.isOk() ? collectReports(*reports, record) : reports.status();
  return completeOrDiscard(record, written);
}

Status CheckpointSaver::collectReports(const std::vector<std::string> &reports, CheckpointRecord &record) {
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    MGC_ASSIGN(files, readReport(reports[rank]).at(fmt::format("rank {}", rank)));
    std::ranges::move(files, std::back_inserter(record.files));
  }
  return Status::ok();
}

} // namespace mgc
