// plan.json (docs/plan-format.md) <-> Plan.
// In: a plan, or a directory with a plan.json that anyone may have written. Out: the file, or the plan as it
// says. Reading proves types, names and that the text is what was written; verifyPlan (plan/prove/VerifyPlan.h) proves the
// contents.
#pragma once

#include "plan/Plan.h"
#include "runtime/base/File.h"

#include <filesystem>

namespace mgc::plan {

inline constexpr const char *kPlanFile = "plan.json";
// In the folder of a plan that is trained: the one that evaluates the same model in the same layout (docs/evaluation.md).
inline constexpr const char *kEvaluationFolder = "evaluation";
// Likewise: the one of smaller batches, through which the batch grows (BatchSizes.h).
inline std::string batchFolder(std::string_view size) { return "batch-" + std::string(size); }

// Writes directory/plan.json, making the directory if it is missing. The file is whole or not there. The same
// plan gives the same bytes.
Status writePlan(const Plan &plan, const std::filesystem::path &directory);

// The same up to the last moment: all bytes are on disk, and commit() makes them directory/plan.json.
Result<AtomicFile> stagePlan(const Plan &plan, const std::filesystem::path &directory);

// Refuses what was edited or cut off, another version, unknown and missing fields, and wrong types; lists up to 20.
Result<Plan> readPlan(const std::filesystem::path &directory);

// Refuses a folder with a plan.json that mgc did not write. A plan of any version, and a folder without one, may be
// replaced.
Status verifyReplaceablePlan(const std::filesystem::path &directory);

// The same on the text of the file. Printing fails on numbers that are not finite and strings that are not UTF-8.
Result<std::string> printPlan(const Plan &plan);
Result<Plan> parsePlan(std::string_view text);

// `body` (a JSON object: the plan without version and checksum) with the header that parsePlan expects. For
// tools that edit plans on purpose.
std::string sealPlan(int64_t version, std::string_view body);

// The files of the plan's bundle in its folder.
std::vector<std::string> filesOf(const std::string &folder, const Plan &plan);

} // namespace mgc::plan
