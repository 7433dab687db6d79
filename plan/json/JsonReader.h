// JSON -> a plan struct, by the fields of Fields.h. The JSON is hostile: what is missing, unknown or of the
// wrong type or range becomes a violation with its place, and the value keeps its default. Throws nothing.
#pragma once

#include "plan/Violations.h"
#include "plan/json/Fields.h"
#include "runtime/base/Json.h"

#include <fmt/ranges.h>
#include <limits>
#include <set>

namespace mgc::plan {

class JsonReader {
public:
  using Json = nlohmann::json;

  explicit JsonReader(Violations &violations) : violations_(violations) {}

  void read(const Json &json, bool &value, const Place &place) {
    if (expect(json.is_boolean(), json, "true or false", place))
      value = json.get<bool>();
  }
  void read(const Json &json, int64_t &value, const Place &place) {
    bool fits = json.is_number_integer() &&
                (!json.is_number_unsigned() || json.get<uint64_t>() <= std::numeric_limits<int64_t>::max());
    if (expect(fits, json, "an integer of 64 bits", place))
      value = json.get<int64_t>();
  }
  void read(const Json &json, double &value, const Place &place) {
    if (expect(json.is_number(), json, "a number", place))
      value = json.get<double>();
  }
  void read(const Json &json, std::string &value, const Place &place) {
    const bool isText = json.is_string() && json.get_ref<const std::string &>().find('\0') == std::string::npos;
    if (expect(isText, json, "a string without NUL", place))
      value = json.get_ref<const std::string &>();
  }
  void read(const Json &json, uint64_t &value, const Place &place);

  template <typename T> void read(const Json &json, T &value, const Place &place) {
    if constexpr (std::is_enum_v<T>) {
      int64_t index = choose(json, enumNames<T>, place);
      value = index < 0 ? value : static_cast<T>(index);
    } else if constexpr (isTuple<T>) {
      if (expect(json.is_array(), json, "a list", place))
        readTuple(json, value, place);
    } else if (expect(json.is_object(), json, "an object", place)) {
      readObject(json, value, place);
    }
  }
  template <typename T> void read(const Json &json, std::vector<T> &values, const Place &place) {
    if (!expect(json.is_array(), json, "a list", place))
      return;
    values.resize(json.size());
    for (size_t i = 0; i < values.size(); ++i)
      read(json[i], values[i], place.element(i));
  }
  template <typename T> void read(const Json &json, std::map<std::string, T> &values, const Place &place) {
    if (expect(json.is_object(), json, "an object", place))
      for (const auto &[name, value] : json.items())
        read(value, values[name], place.field(name));
  }

private:
  template <typename T> class Object;
  template <typename T> class Tuple;

  bool expect(bool holds, const Json &json, std::string_view wanted, const Place &place);
  // The index among `names` of a string, or -1.
  int64_t choose(const Json &json, std::span<const std::string_view> names, const Place &place);
  void refuseUnknown(const Json &json, const std::set<std::string_view> &known, const Place &place);

  template <typename T> void readTuple(const Json &json, T &value, const Place &place) {
    Tuple<T> tuple{*this, json, value, place};
    fields(tuple, Of<T>());
    if (json.size() > tuple.next)
      violations_.add(place, "has {} numbers, expected at most {}", json.size(), tuple.next);
  }

  template <typename T> void readObject(const Json &json, T &value, const Place &place) {
    std::set<std::string_view> known;
    Object<T> object{*this, json, value, place, known};
    fields(object, Of<T>());
    if (known.size() != json.size())
      refuseUnknown(json, known, place);
  }

  Violations &violations_;
};

// The visitor that reads the fields of a tuple.
template <typename T> class JsonReader::Tuple {
public:
  JsonReader &reader;
  const Json &json;
  T &value;
  const Place &place;
  size_t next = 0; // field

  template <typename Member> void required(std::string_view name, Member member) {
    if (!optional(name, member))
      reader.violations_.add(place, "\"{}\", its number {}, is missing", name, next - 1);
  }
  template <typename Member> bool optional(std::string_view name, Member member) {
    if (next++ >= json.size())
      return false;
    reader.read(json[next - 1], value.*member, place.field(name));
    return true;
  }
};

// The visitor that reads the fields of one struct.
template <typename T> class JsonReader::Object {
public:
  JsonReader &reader;
  const Json &json;
  T &value;
  const Place &place;
  std::set<std::string_view> &known; // names seen in `json`

  template <typename Member> void required(std::string_view name, Member member) {
    if (!optional(name, member))
      reader.violations_.add(place, "\"{}\" is missing", name);
  }
  template <typename Member> bool optional(std::string_view name, Member member) {
    auto found = json.find(name);
    if (found == json.end())
      return false;
    known.insert(name);
    reader.read(*found, value.*member, place.field(name));
    return true;
  }
  template <typename Member> void alternatives(std::string_view name, const auto &names, Member member) {
    auto found = json.find(name);
    if (found == json.end())
      return reader.violations_.add(place, "\"{}\" is missing; expected one of {}", name, fmt::join(names, " "));
    known.insert(name);
    emplace(reader.choose(*found, names, place.field(name)), value.*member);
  }

private:
  template <typename... Ts> void emplace(int64_t index, std::variant<Ts...> &variant) {
    int64_t alternative = 0;
    ((index == alternative++ ? inner(variant.template emplace<Ts>()) : void()), ...);
  }
  template <typename U> void inner(U &chosen) {
    Object<U> object{reader, json, chosen, place, known};
    fields(object, Of<U>());
  }
};

} // namespace mgc::plan
