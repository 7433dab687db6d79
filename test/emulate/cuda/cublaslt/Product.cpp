#include "test/emulate/cuda/cublaslt/Product.h"

#include "test/emulate/cuda/ptx/Numbers.h"

#include <cmath>

namespace mgc::emulate {
namespace {

using ptx::BFloat;

// The bits of the epilogues, of which the enumeration is made.
constexpr uint32_t kBias = 4, kBiasGradientA = 256, kBiasGradientB = 512;

float read(const void *data, uint64_t index, cudaDataType_t type) {
  return type == CUDA_R_32F ? static_cast<const float *>(data)[index] : float(static_cast<const BFloat *>(data)[index]);
}

void write(void *data, uint64_t index, cudaDataType_t type, float value) {
  if (type == CUDA_R_32F)
    static_cast<float *>(data)[index] = value;
  else
    static_cast<BFloat *>(data)[index] = BFloat(value);
}

uint64_t sizeOf(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : 2; }

uint64_t indexOf(const Matrix &matrix, uint64_t row, uint64_t column) {
  return matrix.isRowMajor ? row * matrix.leading + column : row + column * matrix.leading;
}

// op(matrix) of a batch as f32, row by row.
std::vector<float> unpacked(const Matrix &matrix, const void *data, int batch, bool transpose) {
  const uint64_t rows = transpose ? matrix.columns : matrix.rows, columns = transpose ? matrix.rows : matrix.columns;
  std::vector<float> values(rows * columns);
  for (uint64_t row = 0; row < rows; ++row)
    for (uint64_t column = 0; column < columns; ++column)
      values[row * columns + column] = read(
          data, batch * matrix.batchOffset + (transpose ? indexOf(matrix, column, row) : indexOf(matrix, row, column)),
          matrix.type);
  return values;
}

// sums[m, n] += a[m, from..to) b[from..to, n), in the order of k.
void accumulate(const std::vector<float> &a, const std::vector<float> &b, float *sums, uint64_t m, uint64_t n,
                uint64_t k, uint64_t from, uint64_t to) {
  for (uint64_t row = 0; row < m; ++row)
    for (uint64_t inner = from; inner < to; ++inner) {
      const float factor = a[row * k + inner];
      const float *line = b.data() + inner * n;
      float *sum = sums + row * n;
      for (uint64_t column = 0; column < n; ++column)
        sum[column] = std::fma(factor, line[column], sum[column]);
    }
}

bool isKnownType(cudaDataType_t type) { return type == CUDA_R_32F || type == CUDA_R_16BF; }

} // namespace

uint64_t Matrix::bytes() const {
  const uint64_t last = isRowMajor ? (rows - 1) * leading + columns : rows + (columns - 1) * leading;
  return rows == 0 || columns == 0 ? 0 : ((batch - 1) * batchOffset + last) * elementBytes();
}

bool Matrix::isValid() const {
  return rows > 0 && columns > 0 && batch > 0 && leading >= static_cast<int64_t>(isRowMajor ? columns : rows) &&
         (batch == 1 || batchOffset >= 0);
}

cublasStatus_t Product::check() const {
  for (const Matrix *matrix : {&a, &b, &c, &d})
    if (!isKnownType(matrix->type))
      return CUBLAS_STATUS_NOT_SUPPORTED;
    else if (!matrix->isValid() || matrix->batch != d.batch)
      return CUBLAS_STATUS_INVALID_VALUE;
  const uint64_t rowsOfB = transposeB ? b.columns : b.rows, columnsOfB = transposeB ? b.rows : b.columns;
  const uint64_t rowsOfA = transposeA ? a.columns : a.rows;
  if (rowsOfA != m() || columnsOfB != n() || rowsOfB != k() || c.rows != m() || c.columns != n())
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool isWidening = a.type == CUDA_R_32F && d.type == CUDA_R_16BF;
  constexpr uint32_t withBias = kBias | kBiasGradientA | kBiasGradientB, known = 1 | withBias;
  if (a.type != b.type || c.type != d.type || isWidening || (epilogue.kind & ~known))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (epilogue.has(withBias) && d.batch != 1)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return epilogue.has(withBias) && !epilogue.bias ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

namespace {

// The memory of a product while it runs.
struct Places {
  const void *a, *b, *c;
  void *d, *bias = nullptr;
  float *workspace = nullptr;
  bool areFound = false;

  explicit Places(const Product &product) {
    const Epilogue &epilogue = product.epilogue;
    const uint64_t biasCount = epilogue.has(kBiasGradientB) ? product.n() : product.m();
    a = mgcEmulateHost(product.at[0], product.a.bytes(), "A of a product");
    b = mgcEmulateHost(product.at[1], product.b.bytes(), "B of a product");
    c = product.beta == 0 ? nullptr : mgcEmulateHost(product.at[2], product.c.bytes(), "C of a product");
    d = mgcEmulateHost(product.at[3], product.d.bytes(), "D of a product");
    if (epilogue.bias)
      bias = mgcEmulateHost(epilogue.bias, biasCount * sizeOf(epilogue.biasType), "bias of a product");
    if (product.parts > 1)
      workspace =
          static_cast<float *>(mgcEmulateHost(product.workspace, product.workspaceBytes(), "workspace of a product"));
    areFound = mgcEmulateState() == CUDA_SUCCESS;
  }
};

// The element of D, from the sum of products.
float finished(const Product &product, const Places &places, uint64_t row, uint64_t column, int batch, float sum) {
  const Epilogue &epilogue = product.epilogue;
  float value = product.alpha * sum;
  if (places.c)
    value +=
        product.beta * read(places.c, batch * product.c.batchOffset + indexOf(product.c, row, column), product.c.type);
  if (epilogue.has(kBias))
    value += read(places.bias, row, epilogue.biasType);
  return value;
}

void writeResults(const Product &product, const Places &places, int batch, const std::vector<float> &sums) {
  for (uint64_t column = 0; column < product.n(); ++column)
    for (uint64_t row = 0; row < product.m(); ++row)
      write(places.d, batch * product.d.batchOffset + indexOf(product.d, row, column), product.d.type,
            finished(product, places, row, column, batch, sums[row * product.n() + column]));
}

// BGRADA and BGRADB: the sums of the rows of op(A), or of the columns of op(B).
void writeInputSums(const Product &product, const Places &places, const std::vector<float> &a,
                    const std::vector<float> &b) {
  const bool ofA = product.epilogue.has(kBiasGradientA);
  for (uint64_t i = 0; i < (ofA ? product.m() : product.n()); ++i) {
    float sum = 0;
    for (uint64_t inner = 0; inner < product.k(); ++inner)
      sum += ofA ? a[i * product.k() + inner] : b[inner * product.n() + i];
    write(places.bias, i, product.epilogue.biasType, sum);
  }
}

} // namespace

void Product::run() const {
  const Places places(*this);
  if (!places.areFound)
    return;
  for (int batch = 0; batch < d.batch; ++batch) {
    const std::vector<float> left = unpacked(a, places.a, batch, transposeA),
                             right = unpacked(b, places.b, batch, transposeB);
    std::vector<float> sums(m() * n());
    const uint64_t first = parts == 1 ? k() : k() / 2;
    accumulate(left, right, sums.data(), m(), n(), k(), 0, first);
    if (parts > 1) {
      std::fill_n(places.workspace, sums.size(), 0.0f);
      accumulate(left, right, places.workspace, m(), n(), k(), first, k());
      for (size_t i = 0; i < sums.size(); ++i)
        sums[i] += places.workspace[i];
    }
    writeResults(*this, places, batch, sums);
    if (epilogue.has(kBiasGradientA | kBiasGradientB))
      writeInputSums(*this, places, left, right);
  }
}

} // namespace mgc::emulate
