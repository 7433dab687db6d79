// Library on this CPU: a shared object, opened.
#include "test/codegen/rows/Harness.h"
#include <algorithm>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace mgc::rowgen::test {

const MathErrors kMathErrors{2, 4e-7};

using Kernel = void (*)(void *const *, const int64_t *, int64_t, int64_t);

struct Library::Loaded {
  void *handle;
  ~Loaded() { dlclose(handle); }
  void *find(const std::string &symbol) const { return dlsym(handle, symbol.c_str()); }
};

Library::Library(std::vector<NamedGraph> graphs, CompileOptions options) {
  static int count = 0;
  const std::string path = fmt::format("{}/mgc-rowgen-{}-{}.so", ::testing::TempDir(), getpid(), count++);
  auto result = compileKernels(graphs, std::vector{SharedObject{kTestTarget, path}}, options);
  if (!result.isOk()) {
    ADD_FAILURE() << result.status().message();
    return;
  }
  symbols_ = result.take();
  for (const NamedGraph &named : graphs)
    infos_.push_back(describeKernel(named.graph));
  if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
    loaded_.reset(new Loaded{handle});
  else
    ADD_FAILURE() << dlerror();
  unlink(path.c_str());
}

Library::~Library() = default;

static std::vector<std::pair<int64_t, int64_t>> randomParts(int64_t range) {
  static std::mt19937 random(7);
  std::vector<int64_t> cuts = {0, range};
  for (int cut = 0; cut < 5; ++cut)
    cuts.push_back(int64_t(random() % uint64_t(range + 1)));
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (size_t cut = 0; cut + 1 < cuts.size(); ++cut)
    parts.push_back({cuts[cut], cuts[cut + 1]});
  std::shuffle(parts.begin(), parts.end(), random);
  return parts;
}

void Library::run(size_t number, std::vector<Buffer *> buffers, std::vector<int64_t> scalars) {
  if (!loaded_)
    return;
  const std::string &symbol = symbols_[number];
  const void *needs = loaded_->find(symbol + std::string(plan::kNeedsSuffix));
  expectNeeds(number, static_cast<const int64_t *>(needs), buffers, scalars.size());
  auto kernel = reinterpret_cast<Kernel>(loaded_->find(symbol));
  ASSERT_NE(kernel, nullptr) << symbol;
  std::vector<Buffer> copies;
  for (Buffer *buffer : buffers)
    copies.push_back(*buffer);
  std::vector<void *> pointers, copyPointers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    pointers.push_back(buffers[i]->floats());
    size_t first = std::find(buffers.begin(), buffers.end(), buffers[i]) - buffers.begin(); // aliases stay aliases
    copyPointers.push_back(copies[first].floats());
  }
  kernel(pointers.data(), scalars.data(), 0, infos_[number].range);
  for (auto [begin, end] : randomParts(infos_[number].range))
    kernel(copyPointers.data(), scalars.data(), begin, end);
  for (size_t i = 0; i < buffers.size(); ++i) {
    size_t first = std::find(buffers.begin(), buffers.end(), buffers[i]) - buffers.begin();
    EXPECT_TRUE(buffers[i]->sameBits(copies[first])) << "operand " << i << " depends on the split of the range";
    EXPECT_TRUE(buffers[i]->guardsIntact()) << "operand " << i << ": written outside";
  }
}

} // namespace mgc::rowgen::test
