// Library on a GPU's stand-in: PTX text, interpreted. It refuses every access that is not inside a buffer.
#include "test/codegen/rows/Harness.h"
#include "test/emulate/cuda/ptx/Ptx.h"
#include <algorithm>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

namespace mgc::rowgen::test {

const MathErrors kMathErrors{3, 6e-7};

struct Library::Loaded {
  ptx::AddressSpace space;
  std::unique_ptr<ptx::Module> module;
  const int64_t *array(const std::string &symbol, std::string_view suffix) const {
    auto region = module->global(symbol + std::string(suffix));
    return region ? reinterpret_cast<const int64_t *>(region->host) : nullptr;
  }
};

static std::string readAndRemove(const std::string &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  unlink(path.c_str());
  return text.str();
}

Library::Library(std::vector<NamedGraph> graphs, CompileOptions options) {
  static int count = 0;
  const std::string path = fmt::format("{}/mgc-rowgen-{}-{}.ptx", ::testing::TempDir(), getpid(), count++);
  auto result = compileKernels(graphs, PtxFile{plan::KernelLevel::sm90, path}, options);
  if (!result.isOk()) {
    ADD_FAILURE() << result.status().message();
    return;
  }
  symbols_ = result.take();
  for (const NamedGraph &named : graphs)
    infos_.push_back(describeKernel(named.graph));
  auto loaded = std::make_unique<Loaded>();
  auto module = ptx::Module::load(readAndRemove(path), loaded->space);
  if (!module.isOk()) {
    ADD_FAILURE() << module.status().message();
    return;
  }
  loaded->module = module.take();
  loaded_ = std::move(loaded);
}

Library::~Library() = default;

namespace {
// The same bytes `shift` bytes after a multiple of 16.
class Shifted {
public:
  Shifted(const Buffer &buffer, size_t shift) : shift_(shift), bytes_(buffer.bytes()), words_(bytes_ / 16 + 2) {
    std::memcpy(data(), buffer.data(), bytes_);
  }
  std::byte *data() { return reinterpret_cast<std::byte *>(words_.data()) + shift_; }
  size_t bytes() const { return bytes_; }

private:
  struct alignas(16) Words {
    std::byte bytes[16];
  };
  size_t shift_, bytes_;
  std::vector<Words> words_;
};
} // namespace

// Buffers that are the same one stay so.
static size_t firstOf(const std::vector<Buffer *> &buffers, size_t number) {
  return size_t(std::find(buffers.begin(), buffers.end(), buffers[number]) - buffers.begin());
}

void Library::run(size_t number, std::vector<Buffer *> buffers, std::vector<int64_t> scalars) {
  if (!loaded_)
    return;
  const std::string &symbol = symbols_[number];
  expectNeeds(number, loaded_->array(symbol, plan::kNeedsSuffix), buffers, scalars.size());
  const int64_t *launch = loaded_->array(symbol, plan::kLaunchSuffix);
  const ptx::KernelInfo *kernel = loaded_->module->kernel(symbol);
  ASSERT_TRUE(launch && kernel) << symbol;
  ASSERT_EQ(kernel->parameters.size(), buffers.size() + size_t(infos_[number].scalars)) << symbol;
  std::vector<std::vector<Shifted>> copies(2);
  for (size_t run = 0; run < copies.size(); ++run) {
    std::vector<uint64_t> arguments;
    for (size_t i = 0; i < buffers.size(); ++i) {
      copies[run].emplace_back(*buffers[i],
                               run * 4); // the second time no vector of more than an f32 is where it may be
      size_t first = firstOf(buffers, i);
      arguments.push_back(first == i ? loaded_->space.add(copies[run][i].data(), buffers[i]->bytes())
                                     : arguments[first]);
    }
    arguments.insert(arguments.end(), scalars.begin(), scalars.end());
    std::vector<void *> values;
    for (uint64_t &argument : arguments)
      values.push_back(&argument);
    std::vector<std::byte> parameters = ptx::packParameters(*kernel, values.data());
    auto result = loaded_->module->launch(symbol, {.grid = {uint32_t(launch[0])},
                                                   .block = {uint32_t(launch[1])},
                                                   .sharedBytes = uint32_t(launch[2]),
                                                   .parameters = parameters,
                                                   .workers = unsigned(run + 1)});
    EXPECT_TRUE(result.isOk()) << result.status().message();
    for (size_t i = 0; i < buffers.size(); ++i)
      if (firstOf(buffers, i) == i)
        loaded_->space.remove(arguments[i]);
  }
  for (size_t i = 0; i < buffers.size(); ++i) {
    size_t first = firstOf(buffers, i);
    EXPECT_EQ(std::memcmp(copies[0][first].data(), copies[1][first].data(), buffers[i]->bytes()), 0)
        << symbol << ", operand " << i << " depends on where its operands begin";
    if (first == i)
      std::memcpy(buffers[i]->floats(), copies[0][i].data(), buffers[i]->bytes());
  }
}

} // namespace mgc::rowgen::test
