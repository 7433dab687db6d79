// Problems: collects everything that is wrong, so that the user sees all of it at once.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace mgc {

class Problems {
public:
  static constexpr size_t kShown = 20; // further problems are only counted

  Problems() = default;
  // `place` stands before each problem: "config.json".
  explicit Problems(std::string place) : place_(std::move(place)) {}

  template <typename... Args> void add(fmt::format_string<Args...> format, Args &&...args) {
    if (++count_ <= kShown)
      append(fmt::format(format, std::forward<Args>(args)...));
  }
  // Adds unless it holds; returns whether it does.
  template <typename... Args> bool expect(bool holds, fmt::format_string<Args...> format, Args &&...args) {
    if (!holds)
      add(format, std::forward<Args>(args)...);
    return holds;
  }
  // An indented line below the last problem: what would work.
  template <typename... Args> void hint(fmt::format_string<Args...> format, Args &&...args) {
    if (count_ <= kShown)
      lines_.back() += "\n  " + fmt::format(format, std::forward<Args>(args)...);
  }

  // A line for the user about what is no problem.
  template <typename... Args> void note(fmt::format_string<Args...> format, Args &&...args) {
    notes_.push_back(placed(fmt::format(format, std::forward<Args>(args)...)));
  }

  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  std::string text() const; // one below the other
  const std::vector<std::string> &notes() const { return notes_; }
  Status status() const; // ok when there are none

private:
  std::string placed(std::string_view text) const;
  void append(std::string_view problem) { lines_.push_back(placed(problem)); }
  std::string place_;
  size_t count_ = 0;
  std::vector<std::string> lines_, notes_;
};

// One error of all there are; ok where there is none.
Status allOf(std::initializer_list<Status> statuses);

} // namespace mgc
