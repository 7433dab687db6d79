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

// The row of a table whose `name` is the type of the object; what: of which kind the rows are, for the message.
template <typename Row, size_t size>
Result<const Row *> rowOf(const JsonPlace &json, std::string_view type, const Row (&rows)[size],
                          std::string_view what) {
  std::string names;
  for (const Row &row : rows) {
    if (row.name == type)
      return &row;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return errorf("{}: the {} {} is not known, expected one of {}", json.where(), what, type, names);
}

} // namespace mgc
