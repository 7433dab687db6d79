// Files that a program is asked to write, looked at before its work begins.
#pragma once

#include "runtime/base/Status.h"

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace mgc {

// Whether both lead to one file, which need not be there yet.
bool isSameFile(const std::filesystem::path &a, const std::filesystem::path &b);

// Whether there is a file with these first bytes.
bool beginsWith(const std::string &path, std::string_view beginning);

// A kind of file that a flag writes. It replaces files of its kind; others only by force.
struct OutputKind {
  std::string flag, name; // "--trace", "a trace"
  std::function<bool(const std::string &path)> isOf;
};

// Requires that the file can be created, and that it replaces none of another kind unless `force`.
Status verifyCreatable(const OutputKind &kind, const std::string &path, bool force);

} // namespace mgc
