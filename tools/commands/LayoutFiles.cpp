// See LayoutFiles.h.
#include "tools/commands/LayoutFiles.h"

#include "compiler/schedule/Text.h"
#include "plan/cost/Machine.h"
#include "runtime/base/File.h"

#include <algorithm>
#include <filesystem>

namespace mgc::tools {

constexpr int64_t kMaxTextBytes = int64_t(1) << 26;

// "file:mine.txt": the name of a file as a plan can hold it.
static std::string nameInProgram(const std::filesystem::path &path) {
  std::string name = path.filename().string();
  std::ranges::replace_if(name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return "file:" + name;
}

// Whether a word that no table has is meant as a file.
static bool isFile(const std::string &name) {
  std::error_code ignored;
  return !name.empty() && (std::filesystem::exists(name, ignored) || name.find_first_of("./") != std::string::npos);
}

Status addMachineFile(const std::string &name, frontend::Supported &supported) {
  if (std::ranges::count(supported.machines, name, &frontend::MachineInfo::name) > 0 || !isFile(name))
    return Status::ok();
  MGC_ASSIGN(text, readFile(name, kMaxTextBytes));
  MGC_TRY(Status(cost::parseMachine(text).status()).at(name));
  supported.machines.push_back({name, text.substr(text.find('{'))});
  return Status::ok();
}

Status addScheduleFile(const std::string &name, frontend::Supported &supported) {
  if (std::ranges::count(supported.schedules, name, &frontend::ScheduleInfo::name) > 0 || !isFile(name))
    return Status::ok();
  MGC_ASSIGN(text, readFile(name, kMaxTextBytes));
  MGC_ASSIGN(read, schedule::readScheduleText(text).at(name));
  const schedule::Shape &shape = read.shape;
  frontend::ScheduleInfo row{name, read.splitBackward, shape.virtualStages, shape.virtualStages};
  row.chunksInV = shape.placement == schedule::ChunkPlacement::v;
  row.nameInProgram = nameInProgram(name);
  row.text = schedule::writeScheduleText(shape, read.orders);
  row.stages = shape.stages;
  row.microbatches = shape.microbatches;
  supported.schedules.push_back(std::move(row));
  return Status::ok();
}

} // namespace mgc::tools
