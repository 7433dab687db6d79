// Facts about an instruction for profiles and traces: its kind, its name, its work.
#pragma once

#include "runtime/exec/Records.h"

#include <string>

namespace mgc {

enum class WorkKind { product, attention, row, collective, move, transfer };
std::string_view nameOf(WorkKind kind);
WorkKind kindOf(const plan::Instruction &instruction);

// Equal for equal work: the symbol of a row kernel; else the label, which has no layer, with the sizes.
std::string kernelOf(const plan::Instruction &instruction);

} // namespace mgc
