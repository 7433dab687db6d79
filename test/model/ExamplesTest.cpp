// The models of examples/: all are read, and have as many parameters as examples/README.md says.
#include "test/Places.h"
#include "test/frontend/Configs.h"
#include "test/model/ModelText.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

using namespace mgc;
using namespace mgc::frontend;

namespace {

// The folders of examples/ and the numbers of parameters that examples/README.md says of them: its rows
// "| folder | on the hub | type | 1,234 | GPUs | options |".
std::map<std::string, int64_t> publishedSizes(const std::string &examples) {
  std::map<std::string, int64_t> sizes;
  std::ifstream readme(examples + "/README.md");
  for (std::string line; std::getline(readme, line);) {
    std::vector<std::string> cells;
    std::istringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');)
      cells.push_back(cell);
    if (cells.size() != 7 || cells[4].find_first_of("123456789") == std::string::npos)
      continue;
    std::erase_if(cells[1], [](char c) { return c == ' '; });
    std::erase_if(cells[4], [](char c) { return c == ' ' || c == ','; });
    sizes[cells[1]] = std::stoll(cells[4]);
  }
  return sizes;
}

TEST(Examples, AllAreReadAndHaveThePublishedSizes) {
  const std::string examples = testFile("../examples");
  std::map<std::string, int64_t> sizes = publishedSizes(examples);
  for (const auto &entry : std::filesystem::directory_iterator(examples)) {
    std::string name = entry.path().filename().string();
    if (!exists(entry.path() / "config.json"))
      continue;
    Result<ModelFile> file = loadModel(entry.path().string());
    EXPECT_TRUE(file.isOk()) << file.status().message();
    if (file.isOk())
      EXPECT_EQ(parameterCount(file->model), sizes[name]) << name;
    sizes.erase(name);
  }
  EXPECT_TRUE(sizes.empty()) << "examples/README.md lists " << sizes.begin()->first << ", which is no folder";
}

} // namespace
