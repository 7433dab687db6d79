// Config: one JSON object of a model description, read field by field. Every accessor checks the type and the range,
// records a problem instead of failing, and marks the field as understood; finish() reports the fields that were not
// read. So a description is either understood completely or refused, with all reasons at once. Fields that the object's
// class in transformers does not read either (setClass) are named in a note.
#pragma once

#include "model/ClassFields.h"
#include "model/Lists.h"
#include "runtime/base/Problems.h"
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string_view>

namespace mgc::frontend {

class Config {
public:
  // `object` must be a JSON object; `prefix` stands before the keys in messages: "rope_scaling.".
  Config(const nlohmann::json &object, std::string prefix, Problems &problems)
      : file(&object), object(&object), prefix(std::move(prefix)), problems(problems) {}

  // The class in transformers whose object it is: fields that are absent have the class's defaults, and each spelling
  // of a field the value of the other, as if they stood there.
  void setClass(const ClassFields &fields);

  bool has(std::string_view key) const;                  // present, null or not
  bool isSet(std::string_view key) const;                // present and not null
  bool isGiven(std::string_view key) const;              // set in the file, in one of its spellings: no default
  std::string_view spelling(std::string_view key) const; // the one that the file has

  // A whole number in [1, limit]. Required; or, absent or null, `fallback`. 0 when a problem was recorded.
  int64_t size(std::string_view key, int64_t limit);
  int64_t sizeOr(std::string_view key, int64_t fallback, int64_t limit);
  // Like sizeOr, for a count that may be 0.
  int64_t countOr(std::string_view key, int64_t fallback, int64_t limit);
  // A whole number in [least, limit]; nothing when absent or null, or a problem was recorded.
  std::optional<int64_t> integer(std::string_view key, int64_t least, int64_t limit);
  // A finite number in [low, high]; `fallback` when absent or null.
  double number(std::string_view key, double fallback, double low, double high);
  // A finite number in [low, high]; a missing one is a problem.
  double requiredNumber(std::string_view key, double low, double high);
  double probability(std::string_view key, double fallback) { return number(key, fallback, 0, 0.999); }
  bool flag(std::string_view key, bool fallback); // false when null, as Python takes it
  std::string word(std::string_view key, std::string_view fallback);
  std::vector<std::string> words(std::string_view key);
  // A list of whole numbers in [least, limit]; empty when absent or null, or a problem was recorded.
  std::vector<int64_t> counts(std::string_view key, int64_t least, int64_t limit, bool mayBeEmpty = false);
  // A list of finite numbers in [low, high]; empty when absent or null, or a problem was recorded.
  std::vector<double> numbers(std::string_view key, double low, double high);
  // The object under `key`, or nothing when it is absent, null or not an object.
  std::optional<Config> child(std::string_view key);
  // The objects of the list under `key`; none when it is absent or null, or a problem was recorded.
  std::vector<Config> children(std::string_view key);
  // All keys, each of which must be a text.
  std::map<std::string, std::string> allWords();

  // One word of a table {word, meaning}; the first row's meaning when a problem was recorded.
  template <typename T>
  T choice(std::string_view key, std::string_view fallback, std::span<const std::pair<std::string_view, T>> table) {
    size_t before = problems.count();
    std::string found = word(key, fallback);
    if (problems.count() != before) // not even a text
      return table.front().second;
    std::vector<std::string> supported;
    for (const auto &[name, meaning] : table) {
      if (name == found)
        return meaning;
      supported.emplace_back(name);
    }
    refuse(key, "is not supported", "supported: " + listOf(supported));
    return table.front().second;
  }

  // Fields without effect on what is trained.
  void ignore(std::span<const std::string_view> keys);
  // A feature that is not supported, switched off by `neutral` (JSON text; null is always neutral).
  void expect(std::string_view key, std::string_view neutral);
  // Records "key = value why" and a hint line (when not empty).
  void refuse(std::string_view key, std::string_view why, std::string_view hint);
  // Every field that was not asked for, and is not null unless `ofNull`, is a problem if the object has no class or its
  // class reads the field: "key = value is not understood for `owner`", then `hint`. Notes name the others, and
  // required fields that are absent and have the class's default.
  void finish(std::string_view owner,
              std::string_view hint = "it may change what the model computes; remove it if it does not",
              bool ofNull = false);

  // Fields that an accessor was asked for, those that were ignored aside.
  const std::set<std::string, std::less<>> &asked() const { return askedFor; }

  Problems &report() { return problems; }

private:
  const nlohmann::json *find(std::string_view key); // null when absent or null; marks it
  std::optional<int64_t> whole(std::string_view key, const nlohmann::json &value, int64_t least, int64_t limit);
  double inRange(std::string_view key, const nlohmann::json &value, double fallback, double low, double high);
  std::string shown(std::string_view key) const;
  void require(std::string_view key, const nlohmann::json *value, std::string_view expected);
  void noteDefault(std::string_view key); // unless the file has the key
  bool isUnderstood(std::string_view key) const;
  std::string ignoredFields(const std::vector<std::string_view> &keys) const;

  const nlohmann::json *file, *object;
  std::shared_ptr<const nlohmann::json> completed; // the object with defaults; null: it has none
  const ClassFields *fields = nullptr;
  std::map<std::string, std::string, std::less<>> spellings; // each spelling: the other
  std::vector<std::string> defaulted;                        // "key = value" of required fields and objects
  std::string prefix;
  Problems &problems;
  std::set<std::string, std::less<>> understood, askedFor;
};

} // namespace mgc::frontend
