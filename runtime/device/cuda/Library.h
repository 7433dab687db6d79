// Library: a shared library of CUDA, opened at run time, so that the plugin loads on machines that have not got it.
//
// The functions of a library are one list, LIST(F) = F(cuInit) F(cuMemAlloc) ..: names as programs write them. The
// library's header maps some to versioned ones (cuMemAlloc_v2), which are looked up.
#pragma once

#include "runtime/base/Status.h"

#include <span>
#include <string>
#include <vector>

namespace mgc::cuda {

class Library {
public:
  // The first of `names` that the loader finds. `help`: what a user can do where there is none.
  static Result<Library> open(std::span<const char *const> names, std::string_view help);

  // Sets `function`; a missing one is noted for `complete`.
  template <typename Function> void find(const char *symbol, Function &function) {
    function = reinterpret_cast<Function>(address(symbol));
  }
  // An error that names all functions that were not found. `expected`: what a library must be to have them.
  Status complete(std::string_view expected) const;

  const std::string &path() const { return path_; }

private:
  Library(void *handle, std::string path) : handle_(handle), path_(std::move(path)) {}
  void *address(const char *symbol);

  void *handle_; // never closed: CUDA's libraries run threads and exit handlers of their own
  std::string path_;
  std::vector<std::string> missing_;
};

} // namespace mgc::cuda

#define MGC_STRING_OF(text) #text
// The name of a function as its header has it: the expansion, not the argument.
#define MGC_SYMBOL(name) MGC_STRING_OF(name)
#define MGC_FUNCTION_FIELD(name) decltype(&::name) name = nullptr;
#define MGC_FIND_FUNCTION(name) library.find(MGC_SYMBOL(name), table.name);
