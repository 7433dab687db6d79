// The stand-in of libcublasLt against sums in f64.
#include "test/emulate/cuda/ptx/Numbers.h"

#include <cublasLt.h>
#include <cuda.h>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace {

using mgc::ptx::BFloat;

const bool isSet = [] { return setenv("MGC_EMULATE_CUDA", "delay=100,seed=1", 0) == 0; }();

#define EXPECT_DONE(call) EXPECT_EQ(static_cast<int>(call), 0)

CUdeviceptr deviceCopy(const void *data, size_t bytes) {
  CUdeviceptr address = 0;
  EXPECT_DONE(cuMemAlloc(&address, bytes));
  EXPECT_DONE(cuMemcpyHtoD(address, data, bytes));
  return address;
}

// A matrix in f32, column by column, and on the device in its type.
struct Operand {
  cudaDataType_t type;
  uint64_t rows, columns;
  std::vector<float> values;
  CUdeviceptr at = 0;

  Operand(cudaDataType_t type, uint64_t rows, uint64_t columns, unsigned seed)
      : type(type), rows(rows), columns(columns) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (uint64_t i = 0; i < rows * columns; ++i)
      values.push_back(float(BFloat(normal(random))));
    std::vector<BFloat> narrow;
    for (float value : values)
      narrow.emplace_back(value);
    at = type == CUDA_R_32F ? deviceCopy(values.data(), values.size() * 4)
                            : deviceCopy(narrow.data(), narrow.size() * 2);
  }
  double get(uint64_t row, uint64_t column, bool transpose = false) const {
    return transpose ? values[column + row * rows] : values[row + column * rows];
  }
  void *pointer() const { return reinterpret_cast<void *>(at); }
  std::vector<float> read() const {
    std::vector<float> result(values.size());
    std::vector<BFloat> narrow(values.size());
    if (type == CUDA_R_32F)
      EXPECT_DONE(cuMemcpyDtoH(result.data(), at, result.size() * 4));
    else
      EXPECT_DONE(cuMemcpyDtoH(narrow.data(), at, narrow.size() * 2));
    for (size_t i = 0; type != CUDA_R_32F && i < narrow.size(); ++i)
      result[i] = float(narrow[i]);
    return result;
  }
};

constexpr uint64_t kM = 24, kN = 13, kK = 37;

class Products : public testing::Test {
protected:
  void SetUp() override {
    CUcontext context = nullptr;
    EXPECT_DONE(cuInit(0));
    EXPECT_DONE(cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT_DONE(cuCtxSetCurrent(context));
    EXPECT_DONE(cublasLtCreate(&handle_));
    EXPECT_DONE(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    EXPECT_DONE(cuMemAlloc(&workspace_, kWorkspace));
  }

  template <typename T> void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    EXPECT_DONE(cublasLtMatmulDescSetAttribute(description_, attribute, &value, sizeof value));
  }

  cublasLtMatrixLayout_t layout(const Operand &operand) {
    cublasLtMatrixLayout_t layout = nullptr;
    EXPECT_DONE(cublasLtMatrixLayoutCreate(&layout, operand.type, operand.rows, operand.columns, operand.rows));
    return layout;
  }

  std::vector<cublasLtMatmulHeuristicResult_t> algorithms(const Operand &a, const Operand &b, const Operand &d,
                                                          uint64_t workspace) {
    cublasLtMatmulPreference_t preference = nullptr;
    EXPECT_DONE(cublasLtMatmulPreferenceCreate(&preference));
    EXPECT_DONE(
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 8));
    std::vector<cublasLtMatmulHeuristicResult_t> found(8);
    int count = 0;
    EXPECT_DONE(cublasLtMatmulAlgoGetHeuristic(handle_, description_, layout(a), layout(b), layout(d), layout(d),
                                               preference, 8, found.data(), &count));
    found.resize(count);
    return found;
  }

  cublasStatus_t multiply(const Operand &a, const Operand &b, const Operand &d, float alpha = 1, float beta = 0,
                          const cublasLtMatmulAlgo_t *algorithm = nullptr) {
    return cublasLtMatmul(handle_, description_, &alpha, a.pointer(), layout(a), b.pointer(), layout(b), &beta,
                          d.pointer(), layout(d), d.pointer(), layout(d), algorithm,
                          reinterpret_cast<void *>(workspace_), kWorkspace, nullptr);
  }

  static constexpr uint64_t kWorkspace = 1 << 16;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t description_ = nullptr;
  CUdeviceptr workspace_ = 0;
};

double product(const Operand &a, const Operand &b, uint64_t row, uint64_t column, bool transposeA, bool transposeB) {
  double sum = 0;
  for (uint64_t k = 0; k < kK; ++k)
    sum += a.get(row, k, transposeA) * b.get(k, column, transposeB);
  return sum;
}

// An f32 sum of kK products of values around 1 is off by some units of the last place of its largest partial sum.
double tolerance(cudaDataType_t output, double value) {
  return (output == CUDA_R_32F ? 0 : std::fabs(value) / 256) + kK * 32 * 6e-8;
}

TEST_F(Products, TransposesAndTypes) {
  for (cudaDataType_t input : {CUDA_R_32F, CUDA_R_16BF})
    for (cudaDataType_t output : {CUDA_R_32F, CUDA_R_16BF})
      for (int transposes = 0; transposes < 4 && !(input == CUDA_R_32F && output == CUDA_R_16BF); ++transposes) {
        const bool ta = transposes & 1, tb = transposes & 2;
        Operand a(input, ta ? kK : kM, ta ? kM : kK, 1), b(input, tb ? kN : kK, tb ? kK : kN, 2), d(output, kM, kN, 3);
        set(CUBLASLT_MATMUL_DESC_TRANSA, ta ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_TRANSB, tb ? CUBLAS_OP_T : CUBLAS_OP_N);
        EXPECT_DONE(multiply(a, b, d, 0.5f, 2));
        const std::vector<float> result = d.read();
        for (uint64_t row = 0; row < kM; ++row)
          for (uint64_t column = 0; column < kN; ++column) {
            const double expected = 0.5 * product(a, b, row, column, ta, tb) + 2 * d.get(row, column);
            ASSERT_NEAR(result[row + column * kM], expected, tolerance(output, expected)) << row << ", " << column;
          }
      }
}

TEST_F(Products, AlgorithmsFollowTheWorkspace) {
  Operand a(CUDA_R_32F, kM, kK, 1), b(CUDA_R_32F, kK, kN, 2), d(CUDA_R_32F, kM, kN, 3), e = d;
  EXPECT_EQ(algorithms(a, b, d, 0).size(), 1u);
  auto both = algorithms(a, b, d, kM * kN * 4);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[1].workspaceSize, kM * kN * 4);
  e.at = deviceCopy(e.values.data(), e.values.size() * 4);
  EXPECT_DONE(multiply(a, b, d, 1, 0, &both[0].algo));
  EXPECT_DONE(multiply(a, b, e, 1, 0, &both[1].algo));
  const std::vector<float> one = d.read(), two = e.read();
  EXPECT_NE(one, two); // another order of sums
  for (size_t i = 0; i < one.size(); ++i)
    EXPECT_NEAR(one[i], two[i], tolerance(CUDA_R_32F, one[i]));
}

// D as it was does not count with beta 0, though it is NaN.
TEST_F(Products, WithoutBetaNothingIsRead) {
  Operand a(CUDA_R_32F, kM, kK, 1), b(CUDA_R_32F, kK, kN, 2), d(CUDA_R_32F, kM, kN, 3);
  EXPECT_DONE(cuMemAlloc(&d.at, kM * kN * 4));
  EXPECT_DONE(multiply(a, b, d));
  for (float value : d.read())
    EXPECT_EQ(value, value);
}

TEST_F(Products, BiasIsAddedToEachColumn) {
  Operand a(CUDA_R_32F, kM, kK, 1), b(CUDA_R_32F, kK, kN, 2), d(CUDA_R_32F, kM, kN, 3), bias(CUDA_R_32F, kM, 1, 4);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(multiply(a, b, d), CUBLAS_STATUS_INVALID_VALUE) << "no bias was given";
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.at);
  EXPECT_DONE(multiply(a, b, d));
  const std::vector<float> result = d.read();
  for (uint64_t row = 0; row < kM; ++row)
    for (uint64_t column = 0; column < kN; ++column) {
      const double expected = product(a, b, row, column, false, false) + bias.get(row, 0);
      ASSERT_NEAR(result[row + column * kM], expected, tolerance(CUDA_R_32F, expected));
    }
}

TEST_F(Products, SumsOfInputs) {
  Operand a(CUDA_R_32F, kM, kK, 1), b(CUDA_R_32F, kK, kN, 2), d(CUDA_R_32F, kM, kN, 3), sums(CUDA_R_32F, kM, 1, 4);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, sums.at);
  for (auto epilogue : {CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB}) {
    const bool ofA = epilogue == CUBLASLT_EPILOGUE_BGRADA;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    EXPECT_DONE(multiply(a, b, d));
    const std::vector<float> result = sums.read();
    for (uint64_t i = 0; i < (ofA ? kM : kN); ++i) {
      double expected = 0;
      for (uint64_t k = 0; k < kK; ++k)
        expected += ofA ? a.get(i, k) : b.get(k, i);
      EXPECT_NEAR(result[i], expected, 1e-4);
    }
  }
}

TEST_F(Products, RefusesWhatTheLibraryRefuses) {
  Operand a(CUDA_R_32F, kM, kK, 1), b(CUDA_R_32F, kK, kN, 2), d(CUDA_R_32F, kM, kN, 3), narrow(CUDA_R_16BF, kM, kN, 3);
  EXPECT_EQ(multiply(b, a, d), CUBLAS_STATUS_INVALID_VALUE);      // shapes
  EXPECT_EQ(multiply(a, b, narrow), CUBLAS_STATUS_NOT_SUPPORTED); // f32 to bf16
  auto found = algorithms(a, b, d, 0);
  Operand shifted = d;
  shifted.at += 4;
  EXPECT_EQ(multiply(a, b, shifted, 1, 0, &found[0].algo), CUBLAS_STATUS_INVALID_VALUE); // alignment
}

TEST(ProductFaults, MemoryOutsideOfAllocationsStopsTheDevice) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        CUcontext context = nullptr;
        cuInit(0);
        cuDevicePrimaryCtxRetain(&context, 0);
        cuCtxSetCurrent(context);
        cublasLtHandle_t handle = nullptr;
        cublasLtMatmulDesc_t description = nullptr;
        cublasLtMatrixLayout_t layout = nullptr;
        cublasLtCreate(&handle);
        cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F);
        cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 4, 4, 4);
        CUdeviceptr at = 0;
        cuMemAlloc(&at, 60);
        auto *data = reinterpret_cast<void *>(at);
        const float one = 1;
        cublasLtMatmul(handle, description, &one, data, layout, data, layout, &one, data, layout, data, layout, nullptr,
                       nullptr, 0, nullptr);
        std::_Exit(cuStreamSynchronize(nullptr) == CUDA_ERROR_ILLEGAL_ADDRESS ? 0 : 1);
      },
      testing::ExitedWithCode(0), "A of a product: 64 bytes at .* of the 60 bytes");
}

} // namespace
