// Status and Result: how every fallible function here reports failure. No exceptions cross an interface.
#pragma once

#include <fmt/format.h>
#include <optional>
#include <string>
#include <utility>

namespace mgc {

// Success, or a message for the user: where, what was found, what was expected, what would work.
class [[nodiscard]] Status {
public:
  Status() = default;
  static Status ok() { return {}; }
  static Status error(std::string message) {
    Status status;
    status.message_ = std::move(message);
    return status;
  }
  bool isOk() const { return !message_; }
  const std::string &message() const { return *message_; }
  // Prefixes the message with the place it came from: "plan.json: ...".
  Status at(std::string_view place) && { return isOk() ? Status() : error(fmt::format("{}: {}", place, *message_)); }

private:
  std::optional<std::string> message_;
};

template <typename... Args> Status errorf(fmt::format_string<Args...> format, Args &&...args) {
  return Status::error(fmt::format(format, std::forward<Args>(args)...));
}

// A value or an error.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}
  bool isOk() const { return value_.has_value(); }
  const Status &status() const { return status_; }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }
  T take() { return std::move(*value_); }
  Result<const T *> address() const { return isOk() ? Result<const T *>(&*value_) : status_; }
  Result at(std::string_view place) && { // as Status
    status_ = std::move(status_).at(place);
    return std::move(*this);
  }

private:
  std::optional<T> value_;
  Status status_;
};

} // namespace mgc

// Returns the error of a Status expression from the enclosing function. This one macro may hide a return: it
// is the language's missing `?`.
#define MGC_TRY(expression)                                                                                            \
  do {                                                                                                                 \
    if (::mgc::Status mgcStatus = (expression); !mgcStatus.isOk())                                                     \
      return mgcStatus;                                                                                                \
  } while (false)

// Assigns the value of a Result expression to `place`, or returns its error.
#define MGC_SET(place, expression)                                                                                     \
  do {                                                                                                                 \
    auto mgcResult = (expression);                                                                                     \
    if (!mgcResult.isOk())                                                                                             \
      return mgcResult.status();                                                                                       \
    place = mgcResult.take();                                                                                          \
  } while (false)

// Declares `name` from a Result expression, or returns its error.
#define MGC_ASSIGN(name, expression)                                                                                   \
  auto name##Result = (expression);                                                                                    \
  if (!name##Result.isOk())                                                                                            \
    return name##Result.status();                                                                                      \
  auto name = name##Result.take()
