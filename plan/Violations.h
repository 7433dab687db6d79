// Where in a plan something stands, and the list of what is wrong with it.
// In: places ("stages[1].chunks[0].calls[3]") and messages. Out: one Status with all of them, the first spelled out.
#pragma once

#include "runtime/base/Problems.h"

#include <string>
#include <string_view>
#include <vector>

namespace mgc::plan {

// A step of the path from the plan to one of its values. A place lives on the stack below its parent and costs
// nothing until somebody asks for its text.
class Place {
public:
  Place() = default;
  Place(const Place &) = delete;
  Place field(std::string_view name) const & { return Place(this, name, -1); }
  Place element(size_t index) const & { return Place(this, {}, static_cast<int64_t>(index)); }
  Place field(std::string_view) && = delete; // the parent would be gone
  Place element(size_t) && = delete;
  std::string text() const;

private:
  Place(const Place *parent, std::string_view name, int64_t index) : parent_(parent), name_(name), index_(index) {}
  const Place *parent_ = nullptr;
  std::string_view name_;
  int64_t index_ = -1;
};

class Violations {
public:
  template <typename... Args> void add(const Place &place, fmt::format_string<Args...> format, Args &&...args) {
    problems_.add("{}: {}", whole(place), fmt::format(format, std::forward<Args>(args)...));
  }
  // Adds unless it holds; returns whether it does.
  template <typename... Args>
  bool expect(bool holds, const Place &place, fmt::format_string<Args...> format, Args &&...args) {
    if (!holds)
      add(place, format, std::forward<Args>(args)...);
    return holds;
  }
  bool expect(Status status, const Place &place) {
    return expect(status.isOk(), place, "{}", status.isOk() ? std::string() : status.message());
  }

  size_t count() const { return problems_.count(); }
  Status status() const { return problems_.status(); }

private:
  static std::string whole(const Place &place); // "plan" for the plan itself
  Problems problems_;
};

} // namespace mgc::plan
