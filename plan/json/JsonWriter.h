// A plan struct -> JSON text, by the fields of Fields.h. Deterministic; defaults of optional fields are left
// out. Structs on many lines have a line per field, and a line per element of each list of structs; others
// are one line, tuples a list. Throws nlohmann::json::exception for a string that is not UTF-8; ok() is false after a number
// that is not finite.
#pragma once

#include "plan/json/Fields.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace mgc::plan {

class JsonWriter {
public:
  explicit JsonWriter(std::string &out) : out_(out) {}
  bool ok() const { return finite_; }

  // Further lines of the value are indented by `indent` spaces or more; 0: the whole value is on this line (but for
  // the plan itself).
  void write(bool value, int) { out_ += value ? "true" : "false"; }
  void write(int64_t value, int) { fmt::format_to(std::back_inserter(out_), "{}", value); }
  void write(const std::string &value, int) { out_ += nlohmann::json(value).dump(); }
  void write(double value, int) {
    finite_ &= std::isfinite(value);
    out_ += nlohmann::json(value).dump();
  }
  // Numbers that use all 64 bits are text: many JSON readers keep 53.
  void write(uint64_t value, int) { fmt::format_to(std::back_inserter(out_), "\"{:016x}\"", value); }

  template <typename T> void write(const T &value, int indent) {
    if constexpr (std::is_enum_v<T>)
      fmt::format_to(std::back_inserter(out_), "\"{}\"", enumNames<T>[static_cast<size_t>(value)]);
    else if constexpr (isTuple<T>)
      writeTuple(value);
    else
      writeObject(value, indent);
  }
  template <typename T> void write(const std::vector<T> &values, int indent) {
    bool lines = indent > 0 && std::is_class_v<T> && !isTuple<T> && !std::is_same_v<T, std::string> && !values.empty();
    writeList('[', ']', values, lines ? indent : 0, [&](const T &value, int inner) { write(value, inner); });
  }
  template <typename T> void write(const std::map<std::string, T> &values, int) {
    writeList('{', '}', values, 0, [&](const auto &entry, int) {
      write(entry.first, 0);
      out_ += ':';
      write(entry.second, 0);
    });
  }

private:
  template <typename T> class Object;
  template <typename T> class Tuple;

  void newLine(int indent) {
    out_ += '\n';
    out_.append(indent, ' ');
  }

  // indent 0: on one line.
  template <typename List, typename Write>
  void writeList(char open, char close, const List &list, int indent, Write writeOne) {
    out_ += open;
    for (bool first = true; const auto &value : list) {
      if (!std::exchange(first, false))
        out_ += ',';
      if (indent > 0)
        newLine(indent + 1);
      writeOne(value, indent > 0 ? indent + 1 : 0);
    }
    if (indent > 0)
      newLine(indent);
    out_ += close;
  }

  template <typename T> void writeTuple(const T &value) {
    out_ += '[';
    Tuple<T> tuple{*this, value, out_.size()};
    fields(tuple, Of<T>());
    out_.resize(tuple.end);
    out_ += ']';
  }

  template <typename T> void writeObject(const T &value, int indent) {
    out_ += '{';
    Object<T> object(*this, value, onManyLines<T> ? indent : 0);
    fields(object, Of<T>());
    if (onManyLines<T>)
      newLine(indent);
    out_ += '}';
  }

  std::string &out_;
  bool finite_ = true;
};

// The visitor that writes the fields of a tuple.
template <typename T> class JsonWriter::Tuple {
public:
  JsonWriter &writer;
  const T &value;
  size_t end; // number of fields up to the last that may not be missing
  bool first = true;

  template <typename Member> void required(std::string_view, Member member) {
    add(member);
    end = writer.out_.size();
  }
  template <typename Member> void optional(std::string_view, Member member) {
    static const T defaults{};
    add(member);
    if (value.*member != defaults.*member)
      end = writer.out_.size();
  }

private:
  template <typename Member> void add(Member member) {
    if (!std::exchange(first, false))
      writer.out_ += ',';
    writer.write(value.*member, 0);
  }
};

// The visitor that writes the fields of one struct.
template <typename T> class JsonWriter::Object {
public:
  // first: nothing stands behind the brace yet.
  Object(JsonWriter &writer, const T &value, int indent, bool first = true)
      : writer_(writer), value_(value), indent_(indent), first_(first) {}

  template <typename Member> void required(std::string_view name, Member member) {
    key(name);
    writer_.write(value_.*member, onManyLines<T> ? indent_ + 1 : 0);
  }
  template <typename Member> void optional(std::string_view name, Member member) {
    static const T defaults{};
    if (value_.*member != defaults.*member)
      required(name, member);
  }
  template <typename Member> void alternatives(std::string_view name, const auto &names, Member member) {
    key(name);
    writer_.out_ += fmt::format("\"{}\"", names[(value_.*member).index()]);
    std::visit([&](const auto &chosen) { inner(chosen); }, value_.*member);
  }

private:
  // The fields of an alternative stand next to those of the struct that has it.
  template <typename U> void inner(const U &chosen) {
    Object<U> object(writer_, chosen, 0, /*first=*/false);
    fields(object, Of<U>());
  }
  void key(std::string_view name) {
    if (!std::exchange(first_, false))
      writer_.out_ += ',';
    if (onManyLines<T>)
      writer_.newLine(indent_ + 1);
    writer_.out_ += fmt::format(onManyLines<T> ? "\"{}\": " : "\"{}\":", name);
  }

  JsonWriter &writer_;
  const T &value_;
  int indent_;
  bool first_;
};

} // namespace mgc::plan
