// See Machine.h.
#include "plan/cost/Machine.h"

#include "MachineTexts.h"
#include "runtime/base/File.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>

namespace mgc::cost {

namespace {

constexpr int64_t kMostFileBytes = int64_t(1) << 20;

const MachineText *findText(std::string_view name) {
  const auto *found = std::ranges::find(kMachineTexts, name, &MachineText::name);
  return found == std::end(kMachineTexts) ? nullptr : found;
}

// Our own files parse: a test reads each.
Machine ownMachine(const MachineText &text) { return *parseMachine(text.text); }

struct MachineFile {
  std::string text;
  Machine machine;
};

Result<MachineFile> readMachine(const std::string &path) {
  MGC_ASSIGN(text, readFile(path, kMostFileBytes));
  MGC_ASSIGN(machine, parseMachine(text).at(path));
  return MachineFile{std::move(text), std::move(machine)};
}

Result<MachineFile> findFile(const std::string &nameOrPath) {
  if (const MachineText *text = findText(nameOrPath))
    return MachineFile{std::string(text->text), ownMachine(*text)};
  std::error_code ignored;
  if (std::filesystem::exists(nameOrPath, ignored))
    return readMachine(nameOrPath);
  return errorf("{}: is neither a machine nor a file; expected one of {}, or the path of a machine file (docs/cost.md)",
                nameOrPath, fmt::join(machineNames(), ", "));
}

} // namespace

std::vector<std::string> machineNames() {
  std::vector<std::string> names;
  for (const MachineText &text : kMachineTexts)
    names.emplace_back(text.name);
  return names;
}

Result<Machine> findMachine(const std::string &nameOrPath) {
  MGC_ASSIGN(file, findFile(nameOrPath));
  return std::move(file.machine);
}

Result<std::string> machineText(const std::string &nameOrPath) {
  MGC_ASSIGN(file, findFile(nameOrPath));
  return std::move(file.text);
}

Machine machineForTarget(std::string_view target) {
  for (const MachineText &text : kMachineTexts)
    if (Machine machine = ownMachine(text); machine.target == target)
      return machine;
  return ownMachine(kMachineTexts[0]);
}

} // namespace mgc::cost
