// Tiny models of every family, as their classes in transformers write them: the parameters of each are the tensors of its
// checkpoint, by name and shape. The files are of test/e2e/against_transformers.py.
#include "plan/Expand.h"
#include "test/Places.h"
#include "test/frontend/Configs.h"
#include "test/model/ModelText.h"

#include <filesystem>
#include <fstream>

using namespace mgc;
using namespace mgc::frontend;

namespace {

namespace fs = std::filesystem;

const fs::path kFolder = testFile("frontend/zoo");

std::vector<std::string> tinyModels() {
  std::vector<std::string> names;
  for (const fs::directory_entry &entry : fs::directory_iterator(kFolder))
    names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

json readTiny(const std::string &name) {
  std::ifstream stream(kFolder / (name + ".json"));
  return json::parse(stream);
}

using Tensors = std::map<std::string, std::vector<int64_t>>;

// As the checkpoint has it: a stack of experts or heads is as many tensors.
void addTensor(Tensors &tensors, const plan::Parameter &parameter) {
  const std::string_view hole = plan::kStackHole;
  std::vector<int64_t> shape = parameter.tensorShape.empty() ? parameter.fileShape : parameter.tensorShape;
  if (parameter.stacked == 0) {
    tensors[parameter.tensor] = shape;
    return;
  }
  shape.erase(shape.begin());
  for (int64_t i = 0; i < parameter.stacked; ++i) {
    std::string name = parameter.tensor;
    name.replace(name.find(hole), hole.size(), std::to_string(i));
    tensors[name] = shape;
  }
}

// "*" at the end stands for any text.
bool isIgnored(const ModelDescription &model, std::string_view tensor) {
  return std::ranges::any_of(model.ignoredTensors, [&](std::string_view name) {
    return name.ends_with('*') ? tensor.starts_with(name.substr(0, name.size() - 1)) : tensor == name;
  });
}

class Zoo : public testing::TestWithParam<std::string> {};

TEST_P(Zoo, ParametersAreTheTensorsOfTheCheckpoint) {
  const json tiny = readTiny(GetParam());
  if (const std::string error = errorOf(tiny["config"]); error.find("is not supported") != std::string::npos)
    GTEST_SKIP() << error; // refused by name
  const ModelDescription found = model(tiny["config"]);
  ASSERT_FALSE(HasFailure()) << "is not read";
  Tensors tensors;
  for (const plan::Parameter &parameter : allParameters(found))
    addTensor(tensors, parameter);
  const auto expected = tiny["tensors"].get<Tensors>();
  for (const auto &[name, shape] : expected)
    if (!isIgnored(found, name))
      EXPECT_EQ(tensors[name], shape) << name;
  for (const auto &[name, shape] : tensors)
    EXPECT_TRUE(expected.contains(name)) << name << " is not in the checkpoint";
}

std::string nameOf(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Tiny, Zoo, testing::ValuesIn(tinyModels()), nameOf);

} // namespace
