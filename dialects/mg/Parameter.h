// mg.param, the attribute of an argument that is a parameter: which tensor of the checkpoint it is a view of, or which
// several it joins (docs/ir.md, import and merge).
//
//   {tensor = "h.{}.attn.c_attn.weight", aliases = [..], part = "q", file_shape = .., grouping = .., offset = .., ..}
//   {tensor = "layers.{}.query_key_value.weight", part = "k", file_shape = [g, (r + 2) d, h], tensor_shape = [g (r + 2) d, h], ..}
//   {along = "j", parts = [{own = "r", count = 2, tensor = .., ..}, {tensor = .., ..}, ..]}
//
// A part with a dimension of its own takes as many positions of `along` as that has; one without takes one.
#pragma once

#include "dialects/mg/Mg.h"
#include "plan/Expand.h"
#include "runtime/base/Status.h"

#include <string>
#include <vector>

namespace mgc {

// The views that it joins, in order; itself where it is one view.
llvm::SmallVector<mlir::DictionaryAttr, 3> viewsOf(mlir::DictionaryAttr param);

// The dimension along which it joins them; null where it is one view.
mlir::StringAttr alongOf(mlir::DictionaryAttr param);

// Its identity, {} in it standing for the instance's number: "h.{}.attn.c_attn.weight[q]", of several joined by +.
std::string nameOf(mlir::DictionaryAttr param);

// The texts of an array in a dictionary; none where there is no such array.
std::vector<std::string> textsIn(mlir::DictionaryAttr dictionary, llvm::StringRef name);

// A name, of a tensor or an identity, for an instance.
using plan::nameForInstance;

// The number of positions of `along` that a view takes; whether the optimizer decays the view (its tensor, of a stack each
// of its tensors, has two or more dimensions).
int64_t positionsOf(mlir::DictionaryAttr view);
bool decays(mlir::DictionaryAttr view);

// `mean_load` of a parameter in the place of whose gradient the load of experts stands: the tokens that an expert has in a step on
// average. 0 of what the optimizer updates, and where param is null.
double meanLoadOf(mlir::DictionaryAttr param);
// Whether the parameter is a counter, with `counts`: nothing updates it, and it is in no file. Other parameters with a
// mean load are biases of routers, which the load updates.
bool isCounter(mlir::DictionaryAttr param);
// Whether the parameter is not trained, with `frozen` (docs/frozen-parameters.md): it has no gradient, and load does
// not update it. Joined views are all frozen or none is.
bool isFrozen(mlir::DictionaryAttr param);
// Whether it is frozen for an evaluation alone, with `evaluated`: a training moves its values.
bool isEvaluated(mlir::DictionaryAttr param);
// Whether the optimizer updates it.
bool isTrained(mlir::DictionaryAttr param);
// The element types of values and gradients. Where load stands in the place of the gradient both are f32; the module says it of
// all others.
Precision precisionOf(mlir::ModuleOp module, double meanLoad);
// Why one of them is what it is, for errors: what the field of mg.training says, or the load.
std::string reasonOfType(double meanLoad, plan::DType TrainingSettings::*field);

// Requires that the parameter names its tensors, that joined views differ, that all of them or none decay and all or
// none are frozen, evaluated ones are frozen, and that they fill the dimension of the type along which they are joined.
Status verifyParameter(mlir::Attribute param, mlir::Type type);

} // namespace mgc
