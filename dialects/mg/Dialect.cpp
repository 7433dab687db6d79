// Registration of the dialect.
#include "dialects/mg/Mg.h"

#include "mlir/IR/DialectImplementation.h"

using namespace mlir;
using namespace mgc;

#include "MgDialect.cpp.inc"
#include "MgInterfaces.cpp.inc"

void MgDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "MgOps.cpp.inc"
      >();
}
