// Names of the fields of the plan's structs and of the values of its enumerations, next to their definitions: read by
// reader and writer of plan.json, and the names of enumerators. A struct T has `template <typename V> constexpr void
// fields(V &v, Of<T>)`, which calls v.required / optional / alternatives with the name and the member pointer of each
// field, in the order of the file: required<&T::a, &T::b>(v). A field that is optional and missing has its default.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

namespace mgc::plan {

template <typename T> struct Of {}; // names the struct whose fields are wanted

// "a" for &T::a.
template <auto Member> consteval std::string_view memberName() {
  std::string_view text =
      __PRETTY_FUNCTION__; // "memberName() [Member = &T::a]", of GCC "[with auto Member = &T::a; ..]"
  text.remove_prefix(text.find("Member = "));
  text = text.substr(0, text.find_first_of(";]"));
  return text.substr(text.rfind(':') + 1);
}
template <auto... Members> constexpr void required(auto &v) { (v.required(memberName<Members>(), Members), ...); }
template <auto... Members> constexpr void optional(auto &v) { (v.optional(memberName<Members>(), Members), ...); }

// A struct whose fields stand on a line each; all others are one line.
template <typename T> inline constexpr bool onManyLines = false;

// A struct whose fields are a list, without names: a short one of which there are many. Fields at its end may be missing that
// are optional.
template <typename T> inline constexpr bool isTuple = false;

// The names of an enumeration's values, in plan.json and in messages: enumNames<E>[value].
template <typename E> inline constexpr auto enumNames = nullptr;
template <typename E>
  requires(!std::is_null_pointer_v<decltype(enumNames<E>)>)
constexpr std::string_view nameOf(E value) {
  return enumNames<E>[static_cast<size_t>(value)];
}
template <typename E> std::optional<E> valueNamed(std::string_view name) {
  for (size_t i = 0; i < enumNames<E>.size(); ++i)
    if (enumNames<E>[i] == name)
      return static_cast<E>(i);
  return std::nullopt;
}

} // namespace mgc::plan
