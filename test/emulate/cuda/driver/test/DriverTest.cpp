// The stand-in of libcuda, called as the driver is. Each fault of a device is met in a process of its own, as it lasts.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kMemory = 64 << 20;

// Before the first call of the driver.
const bool isSet = [] { return setenv("MGC_EMULATE_CUDA", "memory=67108864,delay=400,seed=3,devices=2", 0) == 0; }();

#define EXPECT_DONE(call) EXPECT_EQ(call, CUDA_SUCCESS)

const char *const kModule = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .global .align 8 .u64 facts[3] = {4096, 2, 7};
.visible .entry scale(.param .u64 data, .param .f32 factor, .param .u32 count) {
  .reg .b32 %r<5>; .reg .f32 %f<3>; .reg .b64 %d<3>; .reg .pred %p;
  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r0, %r1, %r2;
  ld.param.u32 %r4, [count];
  setp.ge.u32 %p, %r3, %r4;
  @%p ret;
  ld.param.u64 %d0, [data];
  mul.wide.u32 %d1, %r3, 4;
  add.u64 %d0, %d0, %d1;
  ld.global.f32 %f0, [%d0];
  ld.param.f32 %f1, [factor];
  mul.f32 %f2, %f0, %f1;
  st.global.f32 [%d0], %f2;
  ret;
})";

void open() {
  CUcontext context = nullptr;
  EXPECT_DONE(cuInit(0));
  EXPECT_DONE(cuDevicePrimaryCtxRetain(&context, 0));
  EXPECT_DONE(cuCtxSetCurrent(context));
}

class Driver : public testing::Test {
protected:
  void SetUp() override { open(); }

  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_DONE(cuMemAlloc(&address, bytes));
    owned_.push_back(address);
    return address;
  }

  CUstream stream() {
    CUstream stream = nullptr;
    EXPECT_DONE(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    return stream;
  }

  CUevent event(unsigned flags = 0) {
    CUevent event = nullptr;
    EXPECT_DONE(cuEventCreate(&event, flags));
    return event;
  }

  CUdeviceptr upload(const std::vector<float> &values) {
    CUdeviceptr address = allocate(values.size() * sizeof(float));
    EXPECT_DONE(cuMemcpyHtoD(address, values.data(), values.size() * sizeof(float)));
    return address;
  }

  std::vector<float> download(CUdeviceptr address, size_t count) {
    std::vector<float> values(count);
    EXPECT_DONE(cuMemcpyDtoH(values.data(), address, count * sizeof(float)));
    return values;
  }

  void TearDown() override {
    for (CUdeviceptr address : owned_)
      EXPECT_DONE(cuMemFree(address));
  }

private:
  std::vector<CUdeviceptr> owned_;
};

CUfunction scaleFunction() {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  EXPECT_DONE(cuModuleLoadData(&module, kModule));
  EXPECT_DONE(cuModuleGetFunction(&function, module, "scale"));
  return function;
}

CUresult scale(CUfunction function, CUdeviceptr data, float factor, unsigned count, CUstream stream) {
  void *values[] = {&data, &factor, &count};
  return cuLaunchKernel(function, (count + 63) / 64, 1, 1, 64, 1, 1, 0, stream, values, nullptr);
}

TEST_F(Driver, SaysWhatItIs) {
  int count = 0, major = 0, version = 0;
  size_t free = 0, total = 0, before = 0;
  char name[64] = {};
  EXPECT_DONE(cuDeviceGetCount(&count));
  EXPECT_DONE(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
  EXPECT_DONE(cuDriverGetVersion(&version));
  EXPECT_DONE(cuDeviceGetName(name, sizeof name, 1));
  EXPECT_DONE(cuMemGetInfo(&before, &total));
  allocate(1 << 20);
  EXPECT_DONE(cuMemGetInfo(&free, &total));
  EXPECT_EQ(count, 2);
  EXPECT_EQ(major, 9);
  EXPECT_EQ(version, CUDA_VERSION);
  EXPECT_STREQ(name, "Emulated sm_90");
  EXPECT_EQ(total, kMemory);
  EXPECT_EQ(before - free, size_t(1) << 20);
  CUcontext context = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 2), CUDA_ERROR_INVALID_DEVICE);
}

TEST_F(Driver, MemoryEnds) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, kMemory + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemFree(12345), CUDA_ERROR_INVALID_VALUE);
  address = allocate(16);
  char data[17] = {};
  EXPECT_EQ(cuMemcpyHtoD(address, data, 17), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH(data, address + 1, 16), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, MemoryBeginsAsNaN) {
  float value = download(allocate(4), 1)[0];
  EXPECT_NE(value, value);
}

TEST_F(Driver, CopiesAndFills) {
  CUdeviceptr address = upload({0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_DONE(cuMemsetD32Async(address, 0x3F800000, 1, nullptr));
  EXPECT_DONE(cuMemsetD8Async(address + 28, 0, 4, nullptr));
  CUDA_MEMCPY2D rows = {};
  rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  rows.srcDevice = address + 4, rows.srcPitch = 8;
  rows.dstDevice = address + 8, rows.dstPitch = 12;
  rows.WidthInBytes = 4, rows.Height = 2;
  EXPECT_DONE(cuMemcpy2DAsync(&rows, nullptr));
  EXPECT_DONE(cuCtxSynchronize());
  EXPECT_EQ(download(address, 8), (std::vector<float>{1, 1, 1, 3, 4, 3, 6, 0}));
  rows.Height = 100;
  EXPECT_EQ(cuMemcpy2DAsync(&rows, nullptr), CUDA_ERROR_INVALID_VALUE);
  rows.Height = 1, rows.srcPitch = size_t(1) << 31;
  EXPECT_EQ(cuMemcpy2DAsync(&rows, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, LaunchesKernels) {
  std::vector<float> values(100);
  std::iota(values.begin(), values.end(), 0);
  CUdeviceptr address = upload(values);
  EXPECT_DONE(scale(scaleFunction(), address, 2, 99, nullptr));
  for (size_t i = 0; i < 99; ++i)
    values[i] *= 2;
  EXPECT_EQ(download(address, 100), values);
  EXPECT_EQ(scale(scaleFunction(), address, 2, 0, nullptr), CUDA_ERROR_INVALID_VALUE); // no block
}

TEST_F(Driver, SharedMemoryHasALimitThatMovesOnRequest) {
  CUfunction function = scaleFunction();
  CUdeviceptr data = upload({1});
  float factor = 2;
  unsigned count = 1;
  void *values[] = {&data, &factor, &count};
  auto launch = [&](unsigned shared) {
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, shared, nullptr, values, nullptr);
  };
  EXPECT_EQ(launch(100 << 10), CUDA_ERROR_INVALID_VALUE);
  EXPECT_DONE(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100 << 10));
  EXPECT_DONE(launch(100 << 10));
  EXPECT_EQ(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 228 << 10),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, ModulesHaveVariables) {
  CUmodule module = nullptr;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  EXPECT_DONE(cuModuleLoadData(&module, kModule));
  EXPECT_DONE(cuModuleGetGlobal(&address, &bytes, module, "facts"));
  std::vector<uint64_t> values(bytes / 8);
  EXPECT_DONE(cuMemcpyDtoH(values.data(), address, bytes));
  EXPECT_EQ(values, (std::vector<uint64_t>{4096, 2, 7}));
  EXPECT_EQ(cuModuleGetGlobal(&address, &bytes, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  CUfunction function = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&function, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  EXPECT_DONE(cuModuleUnload(module));
}

TEST_F(Driver, RefusesWrongModules) {
  auto log = [](std::string text) {
    CUmodule module = nullptr;
    std::vector<char> buffer(400);
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {buffer.data(), reinterpret_cast<void *>(buffer.size())};
    EXPECT_EQ(cuModuleLoadDataEx(&module, text.c_str(), 2, options, values), CUDA_ERROR_INVALID_PTX);
    return std::string(buffer.data());
  };
  std::string wrong = kModule, newer = kModule;
  wrong.replace(wrong.find("mul.f32"), 7, "mul.f99");
  newer.replace(newer.find("sm_80"), 5, "sm_100");
  EXPECT_NE(log(wrong).find("line 18"), std::string::npos) << log(wrong);
  EXPECT_NE(log(newer).find("the module is for sm_100; the device has compute capability 9.0"), std::string::npos)
      << log(newer);
}

// Two streams: one writes, the other reads. Without the event the reader is sometimes too early.
TEST_F(Driver, OnlyEventsOrderStreams) {
  CUstream writer = stream(), reader = stream();
  CUdeviceptr from = allocate(4), to = allocate(4);
  auto early = [&](bool waits) {
    int count = 0;
    for (int i = 0; i < 60; ++i) {
      CUevent written = event(CU_EVENT_DISABLE_TIMING);
      EXPECT_DONE(cuMemsetD32Async(from, 0, 1, writer));
      EXPECT_DONE(cuStreamSynchronize(writer));
      EXPECT_DONE(cuMemsetD32Async(from, 0x3F800000, 1, writer));
      EXPECT_DONE(cuEventRecord(written, writer));
      if (waits) {
        EXPECT_DONE(cuStreamWaitEvent(reader, written, 0));
      }
      EXPECT_DONE(cuMemcpyDtoDAsync(to, from, 4, reader));
      EXPECT_DONE(cuStreamSynchronize(reader));
      EXPECT_DONE(cuStreamSynchronize(writer));
      count += download(to, 1)[0] != 1;
      EXPECT_DONE(cuEventDestroy(written));
    }
    return count;
  };
  EXPECT_EQ(early(true), 0);
#ifndef MGC_TEST_FINDS_RACES // this is a race: nothing but an event orders the two
  EXPECT_GT(early(false), 0);
#endif
}

// Holds a stream from the moment it has started until it is released.
struct Hold {
  std::atomic<bool> hasStarted = false, isReleased = false;

  explicit Hold(CUstream stream) {
    auto wait = [](void *data) {
      auto &hold = *static_cast<Hold *>(data);
      hold.hasStarted = true;
      hold.hasStarted.notify_all();
      hold.isReleased.wait(false);
    };
    EXPECT_DONE(cuLaunchHostFunc(stream, wait, this));
  }
  void release() {
    isReleased = true;
    isReleased.notify_all();
  }
};

TEST_F(Driver, EventsTellTime) {
  CUstream one = stream();
  CUevent begin = event(), end = event(), untimed = event(CU_EVENT_DISABLE_TIMING);
  EXPECT_DONE(cuEventQuery(begin));
  EXPECT_DONE(cuEventRecord(begin, one));
  Hold hold(one);
  EXPECT_DONE(cuEventRecord(end, one));
  EXPECT_EQ(cuEventQuery(end), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(cuStreamQuery(one), CUDA_ERROR_NOT_READY);
  hold.hasStarted.wait(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  hold.release();
  EXPECT_DONE(cuEventSynchronize(end));
  float milliseconds = 0;
  EXPECT_DONE(cuEventElapsedTime(&milliseconds, begin, end));
  EXPECT_GE(milliseconds, 20);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, untimed), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(Driver, MarksReachPinnedMemory) {
  void *data = nullptr;
  EXPECT_DONE(cuMemHostAlloc(&data, 8, 0));
  auto *words = static_cast<volatile uint32_t *>(data);
  EXPECT_DONE(cuStreamWriteValue32(nullptr, reinterpret_cast<CUdeviceptr>(data) + 4, 77, 0));
  EXPECT_DONE(cuStreamSynchronize(nullptr));
  EXPECT_EQ(words[1], 77u);
  EXPECT_DONE(cuMemFreeHost(data));
  EXPECT_EQ(cuMemFreeHost(data), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(Driver, PinsMemoryOfTheProcess) {
  std::vector<char> memory(8192);
  EXPECT_EQ(cuMemHostUnregister(memory.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_DONE(cuMemHostRegister(memory.data(), memory.size(), 0));
  EXPECT_EQ(cuMemHostRegister(memory.data(), memory.size(), 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_DONE(cuMemHostUnregister(memory.data()));
  EXPECT_EQ(cuMemHostRegister(nullptr, 8, 0), CUDA_ERROR_INVALID_VALUE);
}

// Memory that is not pinned may be written as soon as the copy's call is back; pinned memory must wait for the copy.
TEST_F(Driver, CopiesReadPinnedMemoryLate) {
  CUstream one = stream();
  void *pinned = nullptr;
  EXPECT_DONE(cuMemHostAlloc(&pinned, 4, 0));
  float plain = 1;
  CUdeviceptr address = allocate(8);
  *static_cast<float *>(pinned) = 1;
  Hold hold(one);
  EXPECT_DONE(cuMemcpyHtoDAsync(address, &plain, 4, one));
  EXPECT_DONE(cuMemcpyHtoDAsync(address + 4, pinned, 4, one));
  plain = *static_cast<float *>(pinned) = 2;
  hold.release();
  EXPECT_DONE(cuStreamSynchronize(one));
  EXPECT_EQ(download(address, 2), (std::vector<float>{1, 2}));
  EXPECT_DONE(cuMemFreeHost(pinned));
}

// 1 -> (x2 on one stream, x3 of another value on the other) -> sum by a copy behind both; captured once, run three times.
TEST_F(Driver, GraphsReplayForksAndJoins) {
  CUfunction function = scaleFunction();
  CUstream one = stream(), other = stream();
  CUevent forked = event(), joined = event();
  CUdeviceptr a = upload({1}), b = upload({1}), out = allocate(8);
  EXPECT_DONE(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_DONE(scale(function, a, 2, 1, one));
  EXPECT_DONE(cuEventRecord(forked, one));
  EXPECT_DONE(cuStreamWaitEvent(other, forked, 0));
  EXPECT_DONE(scale(function, b, 3, 1, other));
  EXPECT_DONE(cuEventRecord(joined, other));
  EXPECT_DONE(scale(function, a, 5, 1, one));
  EXPECT_DONE(cuStreamWaitEvent(one, joined, 0));
  EXPECT_DONE(cuMemcpyDtoDAsync(out, a, 4, one));
  EXPECT_DONE(cuMemcpyDtoDAsync(out + 4, b, 4, one));
  CUgraph graph = nullptr;
  CUgraphExec runnable = nullptr;
  size_t nodes = 0;
  EXPECT_DONE(cuStreamEndCapture(one, &graph));
  EXPECT_DONE(cuGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(nodes, 5u);
  EXPECT_DONE(cuGraphInstantiate(&runnable, graph, 0));
  EXPECT_DONE(cuGraphDestroy(graph));
  EXPECT_EQ(download(a, 1)[0], 1); // nothing ran while it was captured
  for (float step = 1, powerA = 10, powerB = 3; step <= 3; ++step, powerA *= 10, powerB *= 3) {
    EXPECT_DONE(cuGraphLaunch(runnable, one));
    EXPECT_DONE(cuStreamSynchronize(one));
    EXPECT_EQ(download(out, 2), (std::vector<float>{powerA, powerB}));
  }
  EXPECT_DONE(cuGraphExecDestroy(runnable));
}

TEST_F(Driver, CapturesRefuseWhatTheyCannotKeep) {
  CUstream one = stream(), other = stream();
  CUevent before = event(), inside = event();
  CUgraph graph = nullptr;
  CUdeviceptr a = upload({1});
  EXPECT_DONE(cuEventRecord(before, other));

  EXPECT_DONE(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_DONE(cuMemsetD8Async(a, 0, 4, one));
  EXPECT_DONE(cuEventRecord(inside, one));
  EXPECT_EQ(cuEventQuery(inside), CUDA_ERROR_CAPTURED_EVENT);
  EXPECT_DONE(cuStreamWaitEvent(other, inside, 0));
  EXPECT_DONE(cuMemsetD8Async(a, 0, 4, other));
  EXPECT_EQ(cuStreamEndCapture(one, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);

  EXPECT_DONE(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_EQ(cuStreamWaitEvent(one, before, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  EXPECT_EQ(cuStreamEndCapture(one, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  EXPECT_DONE(cuStreamBeginCapture(one, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  CUdeviceptr none = 0;
  EXPECT_EQ(cuMemAlloc(&none, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamSynchronize(one), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(one, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuStreamWaitEvent(one, inside, 0), CUDA_ERROR_CAPTURED_EVENT); // its capture is over
}

// The rest in processes of their own.
[[noreturn]] void finish(bool good) { std::_Exit(good ? 0 : 1); }

class Faults : public testing::Test {
protected:
  void SetUp() override { testing::GTEST_FLAG(death_test_style) = "threadsafe"; }

  // Memory of 64 bytes.
  static CUdeviceptr allocate() {
    CUdeviceptr data = 0;
    EXPECT_DONE(cuMemAlloc(&data, 64));
    return data;
  }
};

TEST_F(Faults, ABadAddressStopsTheDevice) {
  EXPECT_EXIT(
      {
        open();
        const CUdeviceptr data = allocate();
        CUfunction function = scaleFunction();
        bool good = scale(function, data, 2, 17, nullptr) == CUDA_SUCCESS;
        good &= cuStreamSynchronize(nullptr) == CUDA_ERROR_ILLEGAL_ADDRESS;
        good &= scale(function, data, 2, 1, nullptr) == CUDA_ERROR_ILLEGAL_ADDRESS;
        good &= cuMemFree(data) == CUDA_ERROR_ILLEGAL_ADDRESS;
        finish(good);
      },
      testing::ExitedWithCode(0), "kernel scale, line 16.*thread \\(16, 0, 0\\) of block \\(0, 0, 0\\): 4 bytes at");
}

TEST_F(Faults, TheNthLaunchFailsOnRequest) {
  EXPECT_EXIT(
      {
        setenv("MGC_EMULATE_CUDA", "fail-launch=2", 1);
        open();
        const CUdeviceptr data = allocate();
        CUfunction function = scaleFunction();
        bool good = scale(function, data, 2, 1, nullptr) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS;
        good &= scale(function, data, 2, 1, nullptr) == CUDA_SUCCESS;
        finish(good && cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
      },
      testing::ExitedWithCode(0), "kernel scale: launch 2 fails because it was asked to");
}

TEST_F(Faults, TheNthAllocationFailsOnRequest) {
  EXPECT_EXIT(
      {
        setenv("MGC_EMULATE_CUDA", "fail-allocation=2,capability=80", 1);
        open();
        CUdeviceptr data = 0;
        bool good = cuMemAlloc(&data, 64) == CUDA_SUCCESS;
        good &= cuMemAlloc(&data, 64) == CUDA_ERROR_OUT_OF_MEMORY;
        finish(good && cuMemAlloc(&data, 64) == CUDA_SUCCESS);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Faults, SmallerDevicesHaveLessSharedMemory) {
  EXPECT_EXIT(
      {
        setenv("MGC_EMULATE_CUDA", "capability=89", 1);
        open();
        CUfunction function = scaleFunction();
        const auto allow = [&](int kibibytes) {
          return cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kibibytes << 10);
        };
        finish(allow(99) == CUDA_SUCCESS && allow(100) == CUDA_ERROR_INVALID_VALUE);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(Faults, SettingsThatMeanNothingAreRefused) {
  EXPECT_EXIT(
      {
        setenv("MGC_EMULATE_CUDA", "capability=80,memroy=7", 1);
        open();
      },
      testing::ExitedWithCode(2), "found \"memroy=7\"");
}

TEST_F(Faults, HostCodeCannotFollowDeviceAddresses) {
  EXPECT_DEATH(
      {
        open();
        *reinterpret_cast<volatile float *>(allocate()) = 1;
      },
      "");
}

} // namespace
