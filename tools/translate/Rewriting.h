// A row's "here" or "instead" (tools/flags/ForeignAnswers.h) as an option of a command:
//   mgc compile --zero {value}        the values as they are
//   mgrun --timeout {value*60}        a number times 60
//   mgrun --train-samples {value/--seq-length}   divided by the value of another flag of the line
//   mgc-data preprocess {flag} {value}
#pragma once

#include "tools/translate/Draft.h"

namespace mgc::tools {

struct Rewritten {
  std::string_view tool;
  std::vector<std::vector<std::string>> options; // words of each
};
// An error says what is wrong with the value.
Result<Rewritten> rewrite(const std::string &pattern, const LineFlag &flag, const MegatronLine &line);

} // namespace mgc::tools
