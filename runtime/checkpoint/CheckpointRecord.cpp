// See CheckpointRecord.h. The file is {"version": V, "checksum": "C", "checkpoint": BODY}, in these bytes.
#include "runtime/checkpoint/CheckpointRecord.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <regex>

namespace mgc {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kMaxRecordBytes = 1 << 28;
constexpr std::string_view kAfterBody = "\n}\n";

std::string seal(int64_t version, std::string_view body) {
  Checksum checksum;
  checksum.add(body);
  return fmt::format("{{\n\"version\": {},\n\"checksum\": \"{}\",\n\"checkpoint\": {}{}", version, checksum.text(),
                     body, kAfterBody);
}

// The body's text, behind a header that holds.
Result<std::string_view> unseal(std::string_view text) {
  static const std::regex header(R"(\{\n"version": (\d{1,9}),\n"checksum": "[0-9a-f]{8}",\n"checkpoint": )");
  std::cmatch found;
  if (!std::regex_search(text.data(), text.data() + std::min<size_t>(text.size(), 200), found, header,
                         std::regex_constants::match_continuous))
    return errorf("does not begin like the record of a checkpoint; expected {{, a line end and \"version\": {}",
                  CheckpointRecord::kVersion);
  if (found[1] != std::to_string(CheckpointRecord::kVersion))
    return errorf("is of version {}, this program reads version {}", found[1].str(), CheckpointRecord::kVersion);
  std::string_view body = text.substr(size_t(found.length()));
  if (body.ends_with(kAfterBody)) {
    body.remove_suffix(kAfterBody.size());
    if (seal(CheckpointRecord::kVersion, body) == text)
      return body;
  }
  return errorf("was edited or cut off: its text does not have the checksum of its header");
}

// Fields of an object; what is wrong with them is collected.
class FieldReader {
public:
  explicit FieldReader(const json &object) : object_(object) {}

  bool has(const char *name) const { return object_.is_object() && object_.contains(name); }
  void read(const char *name, int64_t &value) {
    const std::optional<int64_t> size = isThere(name) ? jsonSize(object_[name]) : std::nullopt;
    if (expect(size.has_value(), name, "an integer from 0 to 2^63 - 1"))
      value = *size;
  }
  void read(const char *name, std::string &value) {
    if (expect(isThere(name) && object_[name].is_string(), name, "a string"))
      value = object_[name].get<std::string>();
  }
  void read(const char *name, Settings &settings) {
    if (!expect(isThere(name) && object_[name].is_array(), name, "a list of settings"))
      return;
    for (const json &entry : object_[name])
      if (expect(entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_string(), name,
                 "a list of [flag, value]"))
        settings.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
  }
  void read(const char *name, std::vector<CheckpointFile> &files) {
    static const std::regex plain(R"(shard-\d{5,}-model-\d{5,}-of-\d{5,}\.safetensors)");
    if (!expect(isThere(name) && object_[name].is_array(), name, "a list of files"))
      return;
    for (const json &entry : object_[name])
      if (expect(entry.is_array() && entry.size() == 3 && entry[0].is_string() && jsonSize(entry[1]) &&
                     entry[2].is_string() && std::regex_match(entry[0].get_ref<const std::string &>(), plain),
                 name, "a list of [\"shard-..safetensors\", bytes, checksum]"))
        files.push_back({entry[0].get<std::string>(), *jsonSize(entry[1]), entry[2].get<std::string>()});
  }
  void read(const char *name, std::optional<ValueHistory> &history) {
    if (!has(name))
      return;
    const json &entry = object_[name];
    if (expect(entry.is_array() && entry.size() == 2 && jsonSize(entry[0]) && entry[1].is_number() &&
                   entry[1].get<double>() >= 0,
               name, "[number of values, the largest of them]"))
      history = ValueHistory{*jsonSize(entry[0]), entry[1].get<double>()};
  }
  void read(const char *name, std::vector<std::string> &words, std::initializer_list<std::string_view> possible) {
    if (!has(name))
      return;
    if (expect(object_[name].is_array(), name, "a list of words"))
      for (const json &entry : object_[name])
        if (expect(entry.is_string() && std::ranges::find(possible, entry.get<std::string>()) != possible.end(), name,
                   "a list of \"validation\" and \"test\""))
          words.push_back(entry.get<std::string>());
  }
  void read(const char *name, std::optional<BestEvaluation> &best) {
    if (!has(name))
      return;
    const json &entry = object_[name];
    if (expect(entry.is_array() && entry.size() == 3 && jsonSize(entry[0]) && entry[1].is_number() &&
                   jsonSize(entry[2]),
               name, "[steps, loss, evaluations since]"))
      best = BestEvaluation{*jsonSize(entry[0]), entry[1].get<double>(), *jsonSize(entry[2])};
  }
  Status status() const { return status_; }

private:
  bool isThere(const char *name) const { return object_.contains(name); }
  bool expect(bool holds, const char *name, const char *what) {
    if (!holds && status_.isOk())
      status_ =
          errorf("\"{}\" is {}, expected {}", name, isThere(name) ? printable(object_[name].dump()) : "missing", what);
    return holds;
  }
  const json &object_;
  Status status_;
};

} // namespace

std::string printRecord(const CheckpointRecord &record) {
  const auto lines = [](const auto &entries, const auto &print) {
    std::string text;
    for (const auto &entry : entries)
      text += (text.empty() ? "\n  " : ",\n  ") + print(entry).dump(-1, ' ', false, json::error_handler_t::replace);
    return "[" + text + "]";
  };
  const auto quoted = [](const std::string &text) {
    return ordered_json(text).dump(-1, ' ', false, json::error_handler_t::replace);
  };
  const auto setting = [](const auto &entry) { return ordered_json{entry.first, entry.second}; };
  const auto given = [&](const char *name, const Settings &settings) {
    return settings.empty() ? "" : fmt::format("\"{}\": {},\n", name, lines(settings, setting));
  };
  const auto history = [](const char *name, const std::optional<ValueHistory> &values) {
    return values ? fmt::format("\"{}\": {},\n", name, ordered_json{values->seen, values->largest}.dump()) : "";
  };
  const std::string body = fmt::format(
      "{{\n\"step\": {},\n{}{}{}{}{}\"samples\": {},\n\"model\": {},\n\"layout\": {},\n\"globalBatchSize\": "
      "{},\n\"sequenceLength\": {},\n\"data\": {},\n\"optimizer\": {},\n{}{}\"files\": {}\n}}",
      record.step,
      record.skipped > 0
          ? fmt::format("\"skipped\": {},\n\"skippedSamples\": {},\n", record.skipped, record.skippedSamples)
          : "",
      history("losses", record.losses), history("gradientNorms", record.norms),
      record.owed.empty() ? "" : fmt::format("\"owed\": {},\n", ordered_json(record.owed).dump()),
      record.best ? fmt::format("\"best\": {},\n",
                                ordered_json{record.best->step, record.best->loss, record.best->since}.dump())
                  : "",
      record.samples, quoted(record.model), quoted(record.layout), record.globalBatchSize, record.sequenceLength,
      lines(record.data, setting), lines(record.optimizer, setting), given("plan", record.plan),
      given("noted", record.noted), lines(record.files, [](const CheckpointFile &file) {
        return ordered_json{file.name, file.bytes, file.checksum};
      }));
  return seal(CheckpointRecord::kVersion, body);
}

Result<CheckpointRecord> parseRecord(std::string_view text) {
  MGC_ASSIGN(body, unseal(text));
  MGC_ASSIGN(object, parseJson(body));
  CheckpointRecord record;
  FieldReader reader(object);
  reader.read("step", record.step);
  if (reader.has("skipped")) {
    reader.read("skipped", record.skipped);
    reader.read("skippedSamples", record.skippedSamples);
  }
  reader.read("losses", record.losses);
  reader.read("gradientNorms", record.norms);
  reader.read("owed", record.owed, {"validation", "test"});
  reader.read("best", record.best);
  reader.read("samples", record.samples);
  reader.read("model", record.model);
  reader.read("layout", record.layout);
  reader.read("globalBatchSize", record.globalBatchSize);
  reader.read("sequenceLength", record.sequenceLength);
  reader.read("data", record.data);
  reader.read("optimizer", record.optimizer);
  for (const auto &[name, settings] : {std::pair("plan", &record.plan), std::pair("noted", &record.noted)})
    if (reader.has(name))
      reader.read(name, *settings);
  reader.read("files", record.files);
  MGC_TRY(reader.status());
  if (record.skipped > record.step)
    return errorf("\"skipped\" is {}, expected at most \"step\", {}", record.skipped, record.step);
  if (record.skippedSamples > record.samples)
    return errorf("\"skippedSamples\" is {}, expected at most \"samples\", {}", record.skippedSamples, record.samples);
  if (record.best && record.best->step > record.step)
    return errorf("\"best\" is after {} steps, expected at most \"step\", {}", record.best->step, record.step);
  return record;
}

Result<CheckpointRecord> readRecord(const std::string &folder) {
  const std::string path = folder + "/" + CheckpointRecord::kFile;
  MGC_ASSIGN(text, readFile(path, kMaxRecordBytes));
  return parseRecord(text).at(path);
}

} // namespace mgc
