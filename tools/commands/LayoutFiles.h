// --schedule FILE, --machine FILE: a schedule or a machine that a text gives.
#pragma once

#include "frontend/layout/Layout.h"

namespace mgc::tools {

// Adds what is in the file `name` to the table, under that name; a name that the table has stays that row, and one that is
// neither a row nor a file, nor looks like a path, is left to the checks of the layout.
Status addScheduleFile(const std::string &name, frontend::Supported &supported);
Status addMachineFile(const std::string &name, frontend::Supported &supported);

} // namespace mgc::tools
