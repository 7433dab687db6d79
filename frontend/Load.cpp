#include "frontend/Load.h"
#include "frontend/model/families/Family.h"
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace mgc::frontend {

using nlohmann::json;

static constexpr size_t kMaxFileBytes = 16 << 20;
static constexpr int kMaxDepth = 64;

// Refuses duplicate keys, of which a reader would silently take one, and nesting no description has.
class StructureCheck {
public:
  bool operator()(int depth, json::parse_event_t event, json &value) {
    if (depth > kMaxDepth)
      throw std::runtime_error(fmt::format("nested deeper than {} levels", kMaxDepth));
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    if (event == json::parse_event_t::object_end)
      keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      throw std::runtime_error(fmt::format("the key {} stands there twice", value.dump()));
    return true;
  }

private:
  std::vector<std::set<std::string>> keys;
};

static Result<json> parseJson(const std::string &text) {
  try {
    StructureCheck check;
    return json::parse(
        text, [&](int depth, json::parse_event_t event, json &value) { return check(depth, event, value); });
  } catch (const json::exception
               &error) { // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string_view what = error.what();
    size_t end = what.find("] ");
    return errorf("is not JSON: {}", end == what.npos ? what : what.substr(end + 2));
  } catch (const std::exception &error) {
    return errorf("is not usable JSON: {}", error.what());
  }
}

static void readSize(Config &mgc, std::string_view key, std::optional<int64_t> &option) {
  if (mgc.isSet(key))
    option = mgc.countOr(key, 0, int64_t(1) << 40);
  mgc.ignore(std::initializer_list<std::string_view>{key});
}

static void readWord(Config &mgc, std::string_view key, std::optional<std::string> &option) {
  if (mgc.isSet(key))
    option = mgc.word(key, "");
  mgc.ignore(std::initializer_list<std::string_view>{key});
}

static LayoutOptions readDefaults(Config &config) {
  LayoutOptions options;
  std::optional<Config> mgc = config.child("mgc");
  if (!mgc)
    return options;
  readSize(*mgc, "tp", options.tp);
  readSize(*mgc, "pp", options.pp);
  readSize(*mgc, "dp", options.dp);
  readSize(*mgc, "cp", options.cp);
  readSize(*mgc, "vpp", options.vpp);
  readSize(*mgc, "world", options.world);
  readSize(*mgc, "seq", options.seq);
  readSize(*mgc, "mbs", options.mbs);
  readSize(*mgc, "gbs", options.gbs);
  readSize(*mgc, "zero", options.zero);
  readSize(*mgc, "loss_tile", options.lossTile);
  readSize(*mgc, "ddp_bucket_size", options.bucketSize);
  if (mgc->isSet("sp"))
    options.sp = mgc->flag("sp", false);
  if (mgc->isSet("overlap_grad_reduce"))
    options.overlapGradReduce = mgc->flag("overlap_grad_reduce", false);
  mgc->ignore(std::initializer_list<std::string_view>{"sp", "overlap_grad_reduce"});
  readWord(*mgc, "schedule", options.schedule);
  readWord(*mgc, "dtype", options.dtype);
  readWord(*mgc, "grad_dtype", options.gradientType);
  readWord(*mgc, "target", options.target);
  readWord(*mgc, "cp_order", options.contextOrder);
  if (mgc->isSet("cp_comm_type"))
    options.contextTypes = mgc->words("cp_comm_type");
  mgc->ignore(std::initializer_list<std::string_view>{"cp_comm_type"});
  mgc->finish("the defaults of mgc compile",
              "possible: tp, pp, dp, cp, cp_comm_type, cp_order, vpp, world, seq, mbs, gbs, zero, "
              "loss_tile, ddp_bucket_size, overlap_grad_reduce, sp, "
              "schedule, dtype, grad_dtype, target");
  return options;
}

Result<ModelFile> parseModel(const std::string &text, const std::string &name) {
  Result<json> parsed = parseJson(text);
  if (!parsed.isOk())
    return Status(parsed.status()).at(name);
  if (!parsed->is_object())
    return errorf("{}: holds {} {}, not an object of fields", name, parsed->is_array() ? "an" : "a",
                  parsed->type_name());
  Problems problems(name);
  Config config(*parsed, "", problems);
  ModelFile file;
  file.model.source = name;
  file.model.text = text;
  file.defaults = readDefaults(config);
  readModel(config, file.model);
  if (!problems.empty())
    return problems.status();
  return file;
}

Result<ModelFile> loadModel(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::string file = fs::is_directory(path, error) ? (fs::path(path) / "config.json").string() : path;
  if (!fs::exists(file, error))
    return errorf("{}: no such file", file);
  if (!fs::is_regular_file(file, error))
    return errorf("{}: is not a file", file);
  uintmax_t bytes = fs::file_size(file, error);
  if (error || bytes > kMaxFileBytes)
    return errorf("{}: {} bytes; a model description has at most {}", file, bytes, kMaxFileBytes);
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream || (bytes && !text))
    return errorf("{}: cannot be read", file);
  return parseModel(text.str(), file);
}

} // namespace mgc::frontend
