// The file is {"version": V, "checksum": "C", "plan": BODY}, with these bytes up to BODY and a closing brace
// after it. C is the FNV-1a hash of BODY's text, so that the check needs no parser.
#include "plan/json/PlanJson.h"

#include "plan/Bundle.h"
#include "plan/json/JsonReader.h"
#include "plan/json/JsonWriter.h"
#include "runtime/base/Json.h"
#include "runtime/random/Philox.h"

#include <span>

namespace mgc::plan {

static constexpr int64_t kMaxFileBytes = int64_t(1) << 31;
static constexpr std::string_view kBeforeVersion = "{\n\"version\": ";
static constexpr std::string_view kBeforeChecksum = ",\n\"checksum\": \"";
static constexpr std::string_view kBeforeBody = "\",\n\"plan\": ";
static constexpr std::string_view kAfterBody = "\n}\n";

// --- Writing -----------------------------------------------------------------------------------------------

static std::string headerOf(int64_t version, uint64_t checksum) {
  return fmt::format("{}{}{}{:016x}{}", kBeforeVersion, version, kBeforeChecksum, checksum, kBeforeBody);
}

Status verifyReplaceablePlan(const std::filesystem::path &directory) {
  const std::filesystem::path path = directory / kPlanFile;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return Status::ok();
  std::string beginning(kBeforeVersion.size(), '\0');
  MGC_ASSIGN(file, FileReader::open(path.string()));
  if (file.size() >= static_cast<int64_t>(beginning.size()))
    MGC_TRY(file.read(0, std::as_writable_bytes(std::span(beginning))));
  return beginning == kBeforeVersion
             ? Status::ok()
             : errorf("{}: is no plan that mgc wrote; expected another folder, or --force, which replaces it",
                      path.string());
}

std::string sealPlan(int64_t version, std::string_view body) {
  return fmt::format("{}{}{}", headerOf(version, hashName(body)), body, kAfterBody);
}

Result<std::string> printPlan(const Plan &plan) {
  std::string body;
  JsonWriter writer(body);
  try {
    writer.write(plan, 0);
  } catch (const nlohmann::json::exception &error) {
    return errorf("a string of the plan is not UTF-8 after {} bytes of the file", body.size());
  }
  if (!writer.ok())
    return errorf("a number of the plan is not finite; JSON has no such number");
  return sealPlan(plan.version, body);
}

Result<AtomicFile> stagePlan(const Plan &plan, const std::filesystem::path &directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    return errorf("{}: cannot make the directory: {}", directory.string(), error.message());
  const std::string path = (directory / kPlanFile).string();
  MGC_ASSIGN(text, printPlan(plan).at(path));
  MGC_ASSIGN(file, AtomicFile::create(path));
  MGC_TRY(file.write(text));
  MGC_TRY(file.finish());
  return file;
}

Status writePlan(const Plan &plan, const std::filesystem::path &directory) {
  MGC_ASSIGN(file, stagePlan(plan, directory));
  return file.commit();
}

// --- Reading -----------------------------------------------------------------------------------------------

// Takes `prefix` from the front of `text` if it is there.
static bool consume(std::string_view &text, std::string_view prefix) {
  bool found = text.starts_with(prefix);
  text.remove_prefix(found ? prefix.size() : 0);
  return found;
}

// The text of the plan behind a header that holds.
static Result<std::string_view> unseal(std::string_view text) {
  constexpr int64_t version = kVersion;
  std::string_view rest = text;
  const bool hasVersion = consume(rest, kBeforeVersion);
  const std::string_view found = rest.substr(0, rest.find_first_of(",\n"));
  if (!hasVersion || found.empty())
    return errorf("does not begin like a plan; expected {{, a line end and \"version\": {}", version);
  if (found != std::to_string(version))
    return errorf("is of version {}, this program reads version {}; recompile the plan with the mgc of this version",
                  printable(found), version);
  size_t bodyBegin = headerOf(version, 0).size();
  if (text.size() >= bodyBegin + kAfterBody.size() && text.ends_with(kAfterBody)) {
    std::string_view body = text.substr(bodyBegin, text.size() - bodyBegin - kAfterBody.size());
    if (text.starts_with(headerOf(version, hashName(body))))
      return body;
  }
  return errorf("was edited or cut off: its text does not have the checksum of its header; recompile the plan");
}

Result<Plan> parsePlan(std::string_view text) {
  MGC_ASSIGN(body, unseal(text));
  MGC_ASSIGN(json, parseJson(body));
  Violations violations;
  Place root;
  Plan plan;
  JsonReader(violations).read(json, plan, root);
  MGC_TRY(violations.status());
  return plan;
}

Result<Plan> readPlan(const std::filesystem::path &directory) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(directory, ignored))
    return errorf("{}: is a file, expected the folder of a plan, which has {} in it", directory.string(), kPlanFile);
  std::string path = (directory / kPlanFile).string();
  if (!std::filesystem::exists(path, ignored))
    return errorf(
        "{}: has no {}, expected the folder that mgc compile -o wrote{}", directory.string(), kPlanFile,
        std::filesystem::exists(directory / "config.json", ignored) ? "; a model is compiled first: mgc compile" : "");
  MGC_ASSIGN(text, readFile(path, kMaxFileBytes));
  return parsePlan(text).at(path);
}

std::vector<std::string> filesOf(const std::string &folder, const Plan &plan) {
  std::vector<std::string> files = {fmt::format("{}/{}", folder, kPlanFile)};
  for (const KernelFile &kernels : plan.kernels)
    if (isInBundle(kernels))
      files.push_back(fmt::format("{}/{}", folder, kernels.path));
  return files;
}

} // namespace mgc::plan
