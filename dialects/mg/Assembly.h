// How programs are printed: what is long stands before or behind the functions, not in their first lines.
//
//     #layers_mlp_gate_proj_weight = {tensor = "layers.{}.mlp.gate_proj.weight", ...}    dictionaries of parameters that a
//                                                                                      function returns gradients of
//     module attributes {mg.model = {config = #mg.text<config>}} { ... }
//     {-# dialect_resources: { mg: { config: "..." } } #-}                               texts
#pragma once

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace mgc {
class MgDialect;

// A text and its name among those of the context.
struct Text {
  std::string name;
  std::string text; // empty until the end of the file that it stands in is read
};

class TextHandle : public mlir::AsmDialectResourceHandleBase<TextHandle, Text, MgDialect> {
public:
  using AsmDialectResourceHandleBase::AsmDialectResourceHandleBase;
};

class Assembly : public mlir::OpAsmDialectInterface {
public:
  using OpAsmDialectInterface::OpAsmDialectInterface;

  // The text as one of the context, with this name or, where another text has it, one made of it. Texts live as long as the
  // context; not to be called while other threads use them.
  static TextHandle makeText(mlir::MLIRContext *context, llvm::StringRef name, llvm::StringRef text);

  AliasResult getAlias(mlir::Attribute attribute, llvm::raw_ostream &os) const override;
  mlir::FailureOr<mlir::AsmDialectResourceHandle> declareResource(llvm::StringRef key) const override;
  std::string getResourceKey(const mlir::AsmDialectResourceHandle &handle) const override;
  mlir::LogicalResult parseResource(mlir::AsmParsedResourceEntry &entry) const override;
  void buildResources(mlir::Operation *op, const llvm::SetVector<mlir::AsmDialectResourceHandle> &handles,
                      mlir::AsmResourceBuilder &builder) const override;

private:
  TextHandle declare(llvm::StringRef name) const;

  mutable llvm::StringMap<std::unique_ptr<Text>> texts_; // MLIR calls what declares them const
};

} // namespace mgc
