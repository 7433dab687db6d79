// See Assembly.h.
#include "dialects/mg/Assembly.h"

#include "dialects/mg/Mg.h"

#include "mlir/IR/AsmState.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mgc;

// The name of a parameter's tensor, of its first part's if it has several; empty for other dictionaries.
static StringRef tensorIn(DictionaryAttr dictionary) {
  if (auto parts = dictionary.getAs<ArrayAttr>("parts"); parts && !parts.empty())
    if (auto first = dyn_cast<DictionaryAttr>(parts[0]); first && dictionary.contains("along"))
      return tensorIn(first);
  auto tensor = dictionary.getAs<StringAttr>("tensor");
  return tensor && dictionary.contains("file_shape") ? tensor.getValue() : StringRef();
}

// "layers.{}.mlp.gate_proj.weight" -> "layers_mlp_gate_proj_weight": MLIR takes no dot in a name, and no digit at its end.
OpAsmDialectInterface::AliasResult Assembly::getAlias(Attribute attribute, raw_ostream &os) const {
  auto dictionary = dyn_cast<DictionaryAttr>(attribute);
  const StringRef tensor = dictionary ? tensorIn(dictionary) : StringRef();
  if (tensor.empty() || !llvm::isAlpha(tensor.front()))
    return AliasResult::NoAlias;
  SmallVector<StringRef> words;
  tensor.split(words, '.', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  llvm::erase(words, "{}");
  std::string alias = llvm::join(words, "_");
  for (char &c : alias)
    c = llvm::isAlnum(c) ? c : '_';
  if (dictionary.contains("parts"))
    alias += "_and_more";
  os << alias << (llvm::isDigit(alias.back()) ? "_" : "");
  return AliasResult::FinalAlias;
}

FailureOr<AsmDialectResourceHandle> Assembly::declareResource(StringRef key) const {
  return AsmDialectResourceHandle(declare(key));
}

std::string Assembly::getResourceKey(const AsmDialectResourceHandle &handle) const {
  return cast<TextHandle>(handle).getResource()->name;
}

LogicalResult Assembly::parseResource(AsmParsedResourceEntry &entry) const {
  const auto found = texts_.find(entry.getKey());
  if (found == texts_.end())
    return entry.emitError() << "nothing in the program reads " << entry.getKey() << "; expected #mg.text<"
                             << entry.getKey() << "> in it";
  FailureOr<std::string> text = entry.parseAsString();
  if (failed(text))
    return failure();
  found->second->text = std::move(*text);
  return success();
}

void Assembly::buildResources(Operation *, const SetVector<AsmDialectResourceHandle> &handles,
                              AsmResourceBuilder &builder) const {
  for (const AsmDialectResourceHandle &handle : handles)
    if (const auto *text = dyn_cast<TextHandle>(&handle))
      builder.buildString(text->getResource()->name, text->getResource()->text);
}

TextHandle Assembly::declare(StringRef name) const {
  std::string unused = name.str();
  for (int i = 1; texts_.contains(unused); ++i)
    unused = (name + "_" + Twine(i)).str();
  std::unique_ptr<Text> &text = texts_[unused];
  text = std::make_unique<Text>(Text{unused, ""});
  return {text.get(), cast<MgDialect>(getDialect())};
}

TextHandle Assembly::makeText(MLIRContext *context, StringRef name, StringRef text) {
  auto *dialect = context->getOrLoadDialect<MgDialect>();
  const auto &assembly = *static_cast<const Assembly *>(dialect->getRegisteredInterface<OpAsmDialectInterface>());
  for (const auto &entry : assembly.texts_)
    if (entry.second->text == text)
      return {entry.second.get(), dialect};
  TextHandle handle = assembly.declare(name);
  handle.getResource()->text = text.str();
  return handle;
}
