// A model that no family describes: all of it is written under "mgc": {"model": {..}} (Overrides.h).
#include "frontend/model/families/Decoder.h"

namespace mgc::frontend {

static void read(Config &config, ModelDescription &model, std::vector<BlockDescription> &layers) {
  if (!config.isSet("mgc"))
    config.report().add("mgc.model is missing, but of model_type mgc it is required");
}

extern const Family kWritten;
const Family kWritten = [] {
  Family family = {"mgc", "", {}, {}, kDecoderTensors, read};
  family.tensors.ofEncoder = "encoder.";
  return family;
}();

} // namespace mgc::frontend
