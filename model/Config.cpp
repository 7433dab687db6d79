#include "model/Config.h"

#include "runtime/base/Json.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace mgc::frontend {

using nlohmann::json;

bool Config::has(std::string_view key) const { return object->find(key) != object->end(); }

bool Config::isSet(std::string_view key) const {
  auto it = object->find(key);
  return it != object->end() && !it->is_null();
}

bool Config::isGiven(std::string_view key) const {
  auto it = file->find(spelling(key));
  return it != file->end() && !it->is_null();
}

std::string_view Config::spelling(std::string_view key) const {
  auto other = spellings.find(key);
  return file->contains(key) || other == spellings.end() || !file->contains(other->second) ? key : other->second;
}

void Config::setClass(const ClassFields &ofObject) {
  fields = &ofObject;
  const json defaults = fields->defaultValues();
  json whole = *file;
  for (const auto &[key, value] : defaults.items())
    if (value.is_object() && value.contains("model_type") && !isSet(key)) // a part; null is the class's too
      whole[key] = value;
    else if (value.is_object() && value.contains("model_type") && whole[key].is_object())
      whole[key].emplace("model_type", value["model_type"]);
    else if (key != "rope_parameters" || !isSet("rope_scaling")) // its older form
      whole.emplace(key, value);
  for (const auto &[other, key] : fields->otherSpellings()) {
    spellings.emplace(other, key), spellings.emplace(key, other);
    if (isSet(other) && isSet(key) && file->at(other) != file->at(key))
      refuse(other, fmt::format("and {} = {} differ", key, shown(key)),
             "one is another name of the other; expected the same in both");
    const std::string_view given = isSet(other) && !isSet(key) ? other : key;
    if (whole.contains(given))
      whole[other] = whole[key] = json(whole[given]);
  }
  completed = std::make_shared<const json>(std::move(whole));
  object = completed.get();
}

const json *Config::find(std::string_view key) {
  understood.emplace(key), askedFor.emplace(key);
  auto it = object->find(key);
  return it == object->end() || it->is_null() ? nullptr : &*it;
}

// The value as it stands in the file, shortened.
std::string Config::shown(std::string_view key) const {
  auto it = object->find(key);
  if (it == object->end())
    return "(missing)";
  std::string text = it->dump(-1, ' ', false, json::error_handler_t::replace);
  constexpr size_t kShown = 80;
  if (text.size() <= kShown)
    return text;
  size_t cut = kShown;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) // not inside a UTF-8 sequence
    --cut;
  return text.substr(0, cut) + "...";
}

void Config::refuse(std::string_view key, std::string_view why, std::string_view hint) {
  problems.add("{}{} = {} {}", prefix, spelling(key), shown(key), why);
  if (has(key) && !file->contains(spelling(key)))
    problems.hint("the file has no {}; this is the default of {}", key, fields->className);
  if (!hint.empty())
    problems.hint("{}", hint);
}

std::optional<int64_t> Config::whole(std::string_view key, const json &value, int64_t least, int64_t limit) {
  bool fits = value.is_number_integer() &&
              (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(limit));
  if (fits && value.get<int64_t>() >= least && value.get<int64_t>() <= limit)
    return value.get<int64_t>();
  refuse(key, fmt::format("is not a whole number from {} to {}", least, limit), "");
  return std::nullopt;
}

void Config::require(std::string_view key, const json *value, std::string_view expected) {
  if (!value) {
    problems.add("{}{} is {}, but required", prefix, spelling(key), has(key) ? "null" : "missing");
    problems.hint("expected {}", expected);
  } else
    noteDefault(key);
}

void Config::noteDefault(std::string_view key) {
  if (!file->contains(spelling(key)))
    defaulted.push_back(fmt::format("{}{} = {}", prefix, key, shown(key)));
}

int64_t Config::size(std::string_view key, int64_t limit) {
  const json *value = find(key);
  require(key, value, fmt::format("a whole number from 1 to {}", limit));
  return value ? whole(key, *value, 1, limit).value_or(0) : 0;
}

int64_t Config::sizeOr(std::string_view key, int64_t fallback, int64_t limit) {
  const json *value = find(key);
  return value ? whole(key, *value, 1, limit).value_or(0) : fallback;
}

int64_t Config::countOr(std::string_view key, int64_t fallback, int64_t limit) {
  const json *value = find(key);
  return value ? whole(key, *value, 0, limit).value_or(0) : fallback;
}

std::optional<int64_t> Config::integer(std::string_view key, int64_t least, int64_t limit) {
  const json *value = find(key);
  return value ? whole(key, *value, least, limit) : std::nullopt;
}

double Config::inRange(std::string_view key, const json &value, double fallback, double low, double high) {
  if (value.is_number()) {
    double number = value.get<double>();
    if (std::isfinite(number) && number >= low && number <= high)
      return number;
  }
  refuse(key, fmt::format("is not a number from {} to {}", low, high), "");
  return fallback;
}

double Config::number(std::string_view key, double fallback, double low, double high) {
  const json *value = find(key);
  return value ? inRange(key, *value, fallback, low, high) : fallback;
}

double Config::requiredNumber(std::string_view key, double low, double high) {
  const json *value = find(key);
  require(key, value, fmt::format("a number from {} to {}", low, high));
  return value ? inRange(key, *value, low, low, high) : low;
}

bool Config::flag(std::string_view key, bool fallback) {
  const json *value = find(key);
  if (!value)
    return !has(key) && fallback;
  if (value->is_boolean())
    return value->get<bool>();
  refuse(key, "is not true or false", "");
  return fallback;
}

std::string Config::word(std::string_view key, std::string_view fallback) {
  const json *value = find(key);
  if (!value)
    return std::string(fallback);
  if (value->is_string())
    return value->get<std::string>();
  refuse(key, "is not a text", "");
  return "";
}

std::vector<std::string> Config::words(std::string_view key) {
  std::vector<std::string> result;
  const json *value = find(key);
  if (!value)
    return result;
  const auto isText = [](const json &item) { return item.is_string(); };
  const auto isEmpty = [](const json &item) { return item.get_ref<const std::string &>().empty(); };
  if (!value->is_array() || !std::ranges::all_of(*value, isText)) {
    refuse(key, "is not a list of texts", "");
    return result;
  }
  if (std::ranges::any_of(*value, isEmpty)) {
    refuse(key, "has an empty text", "");
    return result;
  }
  for (const json &item : *value)
    result.push_back(item.get<std::string>());
  return result;
}

std::vector<int64_t> Config::counts(std::string_view key, int64_t least, int64_t limit, bool mayBeEmpty) {
  std::vector<int64_t> result;
  const json *value = find(key);
  if (!value)
    return result;
  const auto isCount = [&](const json &item) {
    return item.is_number_unsigned() && item.get<uint64_t>() >= static_cast<uint64_t>(least) &&
           item.get<uint64_t>() <= static_cast<uint64_t>(limit);
  };
  if (!value->is_array() || (value->empty() && !mayBeEmpty) || !std::all_of(value->begin(), value->end(), isCount)) {
    refuse(key, fmt::format("is not a list of whole numbers from {} to {}", least, limit), "");
    return result;
  }
  for (const json &item : *value)
    result.push_back(item.get<int64_t>());
  return result;
}

std::vector<double> Config::numbers(std::string_view key, double low, double high) {
  std::vector<double> result;
  const json *value = find(key);
  if (!value)
    return result;
  const auto isWithin = [&](const json &item) {
    return item.is_number() && item.get<double>() >= low && item.get<double>() <= high;
  };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), isWithin)) {
    refuse(key, fmt::format("is not a list of numbers from {} to {}", low, high), "");
    return result;
  }
  for (const json &item : *value)
    result.push_back(item.get<double>());
  return result;
}

std::optional<Config> Config::child(std::string_view key) {
  const json *value = find(key);
  if (!value)
    return std::nullopt;
  if (!value->is_object()) {
    refuse(key, "is not an object", "");
    return std::nullopt;
  }
  noteDefault(key);
  return Config(*value, prefix + std::string(key) + ".", problems);
}

std::vector<Config> Config::children(std::string_view key) {
  std::vector<Config> result;
  const json *value = find(key);
  if (!value)
    return result;
  if (!value->is_array() ||
      !std::all_of(value->begin(), value->end(), [](const json &item) { return item.is_object(); })) {
    refuse(key, "is not a list of objects", "");
    return result;
  }
  for (size_t i = 0; i < value->size(); ++i)
    result.emplace_back((*value)[i], fmt::format("{}{}[{}].", prefix, key, i), problems);
  return result;
}

std::map<std::string, std::string> Config::allWords() {
  std::map<std::string, std::string> words;
  for (const auto &[key, value] : object->items())
    words[key] = word(key, "");
  return words;
}

void Config::ignore(std::span<const std::string_view> keys) {
  for (std::string_view key : keys)
    understood.emplace(key);
}

void Config::expect(std::string_view key, std::string_view neutral) {
  const json *value = find(key);
  if (!value || *value == json::parse(neutral, nullptr, /*allow_exceptions=*/false))
    return;
  refuse(key, "is not supported", fmt::format("supported: {}", neutral));
}

// Edit distance, for "did you mean".
static size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// The field among `known` that is not given and is spelt most like `key`; empty when none comes near.
static std::string nearest(std::string_view key, const auto &known, const Config &config) {
  std::string best;
  size_t least = std::min<size_t>(3, key.size() / 3) + 1;
  for (const auto &candidate : known)
    if (key.size() <= 64 && !config.isGiven(candidate) && distance(key, candidate) < least) {
      least = distance(key, candidate);
      best = candidate;
    }
  return best;
}

bool Config::isUnderstood(std::string_view key) const {
  auto other = spellings.find(key);
  return understood.contains(key) || (other != spellings.end() && understood.contains(other->second));
}

// The keys, each with a field of the class that is spelt like it.
std::string Config::ignoredFields(const std::vector<std::string_view> &keys) const {
  constexpr size_t kShown = 100;
  const json defaults = fields->defaultValues();
  std::set<std::string_view> known = fields->names();
  for (const auto &[field, value] : defaults.items())
    known.insert(field);
  std::vector<std::string> named;
  for (std::string_view key : std::span(keys).first(std::min(keys.size(), kShown))) {
    const std::string best = nearest(key, known, *this);
    named.push_back(prefix + printable(key) + (best.empty() ? "" : fmt::format(" (did you mean {}?)", best)));
  }
  if (keys.size() > kShown)
    named.push_back(fmt::format("and {} more", keys.size() - kShown));
  return listOf(named);
}

void Config::finish(std::string_view owner, std::string_view hint, bool ofNull) {
  static const std::set<std::string_view> kGeneration = classFieldsOf(kGenerationFields)->names();
  const std::set<std::string_view> read = fields ? fields->names() : std::set<std::string_view>();
  std::vector<std::string_view> ignored;
  for (const auto &[key, value] : file->items()) {
    if (isUnderstood(key) || (value.is_null() && !ofNull) // null switches off, whatever it is
        || (fields && kGeneration.contains(key)))
      continue;
    if (fields && !read.contains(key)) {
      ignored.push_back(file->find(key).key());
      continue;
    }
    refuse(key, fmt::format("is not understood for {}", owner), hint);
    if (std::string best = nearest(key, understood, *this); !best.empty())
      problems.hint("did you mean {}?", best);
  }
  if (!ignored.empty())
    problems.note("ignored, as {} of transformers ignores them: {}", fields->className, ignoredFields(ignored));
  if (!defaulted.empty() && problems.empty())
    problems.note("missing, so the defaults of {} hold: {}", fields->className, listOf(defaulted));
}

} // namespace mgc::frontend
