// The parameters that a description needs, by role: "attn.q.weight". Their names in files and their shapes are Parameters.h.
#pragma once

#include "model/Parameters.h"

namespace mgc::frontend {

// A parameter, and how it begins where no checkpoint is loaded.
struct Role {
  std::string name;
  plan::InitKind init = plan::InitKind::normal;
  bool isNarrow = false; // has the width of embeddings, i, where its row has h
};

// Parameters of a block, of the other parts of a stack, and of a model; `stack`: the beginning of all names.
std::vector<Role> rolesOf(const BlockDescription &block, std::string_view stack = "");
std::vector<Role> rolesOf(const EncoderDescription &encoder);
std::vector<Role> rolesOf(const Projector &projector);
std::vector<Role> rolesOf(const ModelDescription &model);
std::vector<Role> rolesOfLater(const ModelDescription &model); // one module that predicts a later token

// Whether it is a product whose result is added to the residual of a layer.
bool endsBranch(std::string_view role);

} // namespace mgc::frontend
