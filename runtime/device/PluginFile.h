// Plugins: shared libraries that this program opens at run time, so that it starts where what they need is missing. Each exports
// one function, which gives a table of functions that begins with its version.
#pragma once

#include "runtime/base/Status.h"

#include <string>

namespace mgc::plugin {

// Requires that a shared object has all parts that its header names: the loader maps the file, and a missing part is a
// bus error later. A file that is no shared object is left to the loader.
Status verifyWhole(const std::string &file);

struct PluginFacts {
  std::string name;   // "cuda": of libmgc_cuda.so
  std::string what;   // "the plugin for cuda devices", for messages
  std::string built;  // "where the toolkit is found when CMake configures"
  std::string serves; // "devices"
  const char *symbol; // name of the function
  int version;
};

struct OpenedPlugin {
  const void *table = nullptr;
  std::string path;
};

// libmgc_<name>.so: `path` where it is given, else next to the program, in ../lib (a build) or in ../lib/mgc (an installation) from
// there. It stays loaded until the process ends.
Result<OpenedPlugin> openPlugin(const PluginFacts &facts, const std::string &path = {});

// The message of an error without its line breaks.
std::string inOneLine(const Status &error);

} // namespace mgc::plugin
