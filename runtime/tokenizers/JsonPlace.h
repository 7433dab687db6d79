// A value of a tokenizer.json and where it stands, for messages.
#pragma once

#include "runtime/base/Json.h"

#include <string>

namespace mgc {

class JsonPlace {
public:
  JsonPlace(const nlohmann::json &value, std::string where) : value_(&value), where_(std::move(where)) {}

  const nlohmann::json &value() const { return *value_; }
  const std::string &where() const { return where_; }
  bool isNull() const { return value_->is_null(); }
  // A field of an object; null where there is none.
  JsonPlace operator[](const char *name) const {
    static const nlohmann::json none;
    const bool has = value_->is_object() && value_->contains(name);
    return {has ? (*value_)[name] : none, where_ + "." + name};
  }
  JsonPlace operator[](size_t i) const { return {(*value_)[i], fmt::format("{}[{}]", where_, i)}; }
  // 0 where it is no list.
  size_t size() const { return value_->is_array() ? value_->size() : 0; }

  Result<std::string> text() const {
    if (!value_->is_string())
      return errorf("{}: is {}, expected a text", where_, shown());
    return value_->get<std::string>();
  }
  Result<bool> flag(bool otherwise) const {
    if (isNull())
      return otherwise;
    if (!value_->is_boolean())
      return errorf("{}: is {}, expected true or false", where_, shown());
    return value_->get<bool>();
  }
  Result<int64_t> size(int64_t otherwise) const {
    if (isNull())
      return otherwise;
    const std::optional<int64_t> number = jsonSize(*value_);
    if (!number)
      return errorf("{}: is {}, expected a whole number", where_, shown());
    return *number;
  }
  Result<std::string> type() const { return (*this)["type"].text(); }
  std::string shown() const { return isNull() ? "missing" : printable(value_->dump(-1, ' ', true)); }

private:
  const nlohmann::json *value_;
  std::string where_;
};

// Of a component whose name is none that there is: a table's rows have `name`.
template <typename Rows> std::string namesOf(const Rows &rows) {
  std::string names;
  for (const auto &row : rows)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  return names;
}

} // namespace mgc
