// Parsers, printers, builders and accessors of all ops, as TableGen writes them. They are not optimised: that takes a third of the time of
// this file, the longest of the build, and none of a compilation's time.
#include "dialects/mg/Mg.h"

using namespace mlir;
using namespace mgc;

#ifdef __clang__
#pragma clang optimize off
#endif
#define GET_OP_CLASSES
#include "MgOps.cpp.inc"
