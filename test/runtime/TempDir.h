// A directory for one test, removed with all that is in it; and small helpers around files and errors.
#pragma once

#include "runtime/base/Status.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <set>
#include <sys/resource.h>
#include <vector>

namespace mgc::test {

class TempDir {
public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mgc-test-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
      ADD_FAILURE() << "no temporary directory";
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir &) = delete;
  TempDir &operator=(const TempDir &) = delete;

  std::string path(const std::string &name = "") const { return name.empty() ? path_ : path_ + "/" + name; }
  std::string write(const std::string &name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  std::string read(const std::string &name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::set<std::string> list() const {
    std::set<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(path_))
      names.insert(entry.path().filename().string());
    return names;
  }

private:
  std::string path_;
};

// The fixture of tests that write files.
class InTempDir : public ::testing::Test {
protected:
  TempDir dir;
};

// The bytes of numbers, as a file has them.
template <typename T> std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

// While it lives no file can grow beyond `bytes`: writes fail as they do on a full disk.
class FileSizeLimit {
public:
  explicit FileSizeLimit(uint64_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

private:
  rlimit before_;
  void (*handler_)(int);
};

inline ::testing::AssertionResult isOk(const Status &status) {
  return status.isOk() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << status.message();
}
template <typename T>::testing::AssertionResult isOk(const Result<T> &result) { return isOk(result.status()); }

// Whether a text has each of `parts`.
inline ::testing::AssertionResult has(const std::string &text, std::initializer_list<std::string> parts) {
  for (const std::string &part : parts)
    if (text.find(part) == std::string::npos)
      return ::testing::AssertionFailure() << "expected \"" << part << "\" in: " << text;
  return ::testing::AssertionSuccess();
}

// An error whose message has each of `parts`.
inline ::testing::AssertionResult fails(const Status &status, std::initializer_list<std::string> parts) {
  if (status.isOk())
    return ::testing::AssertionFailure() << "expected an error, found success";
  return has(status.message(), parts);
}
template <typename T>
::testing::AssertionResult fails(const Result<T> &result, std::initializer_list<std::string> parts) {
  return fails(result.status(), parts);
}

} // namespace mgc::test
