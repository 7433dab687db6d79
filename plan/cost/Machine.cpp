// See Machine.h.
#include "plan/cost/Machine.h"

#include "CostTexts.h"

namespace mgc::cost {

std::vector<std::string> machineNames() { return namesOf(kMachineTexts); }

Result<std::string> machineText(const std::string &nameOrPath) {
  MGC_ASSIGN(text, findText(kMachineTexts, nameOrPath, {"machine", "docs/cost.md"}));
  MGC_TRY(findMachine(nameOrPath).status());
  return text;
}

Result<Machine> findMachine(const std::string &nameOrPath) {
  MGC_ASSIGN(text, findText(kMachineTexts, nameOrPath, {"machine", "docs/cost.md"}));
  return parseMachine(text).at(nameOrPath);
}

// Our own files parse: a test reads each.
Machine machineForTarget(std::string_view target) {
  for (const NamedText &text : kMachineTexts)
    if (Result<Machine> machine = parseMachine(text.text); machine->target == target)
      return machine.take();
  return *parseMachine(kMachineTexts[0].text);
}

} // namespace mgc::cost
