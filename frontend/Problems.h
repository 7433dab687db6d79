// Problems: collects everything that is wrong, so that the user sees all of it at once.
#pragma once

#include "runtime/base/Status.h"
#include <cstdint>
#include <string>
#include <vector>

namespace mgc::frontend {

class Problems {
public:
  // `place` stands before each problem: "config.json".
  explicit Problems(std::string place) : place(std::move(place)) {}

  template <typename... Args> void add(fmt::format_string<Args...> format, Args &&...args) {
    addText(fmt::format(format, std::forward<Args>(args)...));
  }
  // An indented line below the last problem: what would work.
  template <typename... Args> void hint(fmt::format_string<Args...> format, Args &&...args) {
    messages.back() += "\n  " + fmt::format(format, std::forward<Args>(args)...);
  }
  bool empty() const { return messages.empty(); }
  size_t size() const { return messages.size(); }
  // All problems, one below the other; ok when there are none.
  Status status() const;

private:
  void addText(std::string text) { messages.push_back(place + ": " + std::move(text)); }

  std::string place;
  std::vector<std::string> messages;
};

// "1, 2, 3, 5"; a long list keeps its first values and the last: "1, 2, ..., 4096". "none" when empty.
std::string listOf(const std::vector<int64_t> &values);
std::string listOf(const std::vector<std::string> &values);
// The divisors of n (n >= 1) up to `limit`, ascending.
std::vector<int64_t> divisorsOf(int64_t n, int64_t limit);

} // namespace mgc::frontend
