// A kernel that goes wrong makes the device fail for good: an error at the next wait, the same one from then on, and no hang.
#include "CudaTest.h"

using namespace mgc;
using namespace mgc::test;
using namespace std::chrono_literals;

namespace {

constexpr mgc_address kNowhere = 0x10000000000000;

// The outcome of the body of a test, which ends its process.
struct Outcome {
  bool asExpected;
  std::string seen;
};

[[noreturn]] void endWith(const Outcome &outcome) {
  std::fputs(outcome.seen.c_str(), stderr);
  std::_Exit(outcome.asExpected ? 0 : 1);
}

bool contains(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

class Faults : public CudaTest {
protected:
  Faults() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  template <typename Body> void inAProcessOfItsOwn(const Body &body) {
    EXPECT_EXIT(endWith(body()), testing::ExitedWithCode(0), "");
  }
  // Enqueues a kernel with addresses of nothing.
  Status fault() {
    const mgc_address operands[] = {kNowhere, kNowhere};
    MGC_ASSIGN(add, module.find("add"));
    return stream.launch(add, operands, {{int64_t(1)}});
  }
  std::string faultAndWait() {
    const Status launched = fault();
    return launched.isOk() ? errorOf(stream.synchronize(60s)) : launched.message();
  }
  plugin::Module module = testModule();
};

TEST_F(Faults, accessOutsideOfMemory) {
  inAProcessOfItsOwn([&] {
    const std::string error = faultAndWait();
    return Outcome{contains(error, "GPU 0 (") && contains(error, "CUDA_ERROR_ILLEGAL_ADDRESS") &&
                       contains(error, "end the process"),
                   error};
  });
}

TEST_F(Faults, failedDeviceStaysFailedWithTheFirstError) {
  inAProcessOfItsOwn([&] {
    const std::string first = faultAndWait();
    for (const std::string &later :
         {errorOf(device().check()), errorOf(device().allocate(64)), errorOf(device().makeStream()),
          errorOf(stream.fill(64, 0, 4)), errorOf(stream.synchronize()), errorOf(device().describe())})
      if (later != first)
        return Outcome{false, first + "\nbut then\n" + later};
    return Outcome{!first.empty(), first};
  });
}

// Whichever call comes first after it.
TEST_F(Faults, otherStreamsSeeIt) {
  inAProcessOfItsOwn([&] {
    const auto other = must(device().makeStream());
    const auto event = must(device().makeEvent());
    const bool launched = fault().isOk();
    const auto waitForIt = [&]() -> Status {
      MGC_TRY(stream.record(event));
      MGC_TRY(other.wait(event));
      return other.synchronize(60s);
    };
    const std::string error = errorOf(waitForIt());
    return Outcome{launched && contains(error, "CUDA_ERROR_ILLEGAL_ADDRESS"), error};
  });
}

TEST_F(Faults, lastMarkTellsHowFarTheStreamCame) {
  inAProcessOfItsOwn([&] {
    const auto pinned = must(device().allocateHost(4));
    auto *mark = reinterpret_cast<uint32_t *>(pinned.data());
    const bool enqueued = stream.mark(mark, 7).isOk() && fault().isOk();
    const Status marked = stream.mark(mark, 8); // refused where the fault is known already
    const std::string error = errorOf(marked.isOk() ? stream.synchronize(60s) : marked);
    return Outcome{enqueued && !error.empty() && *static_cast<volatile uint32_t *>(mark) == 7, error};
  });
}

TEST_F(Faults, objectsOfAFailedDeviceAreDropped) {
  inAProcessOfItsOwn([&] {
    const auto buffer = must(device().allocate(64));
    const auto event = must(device().makeEvent());
    const auto other = must(device().makeStream());
    const std::string error = faultAndWait();
    return Outcome{!error.empty(), error};
  });
}

} // namespace
