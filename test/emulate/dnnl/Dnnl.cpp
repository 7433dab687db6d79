// A stand-in for oneDNN's matmul primitive, loaded before it (LD_PRELOAD): any processor then says that it has AVX512-BF16,
// and takes the code that goes with it. All else, sgemm too, is oneDNN's own.
//
// A product computes each row of C in its scratchpad, lets other threads run, and then writes it. As in oneDNN a primitive
// has one scratchpad for all its calls, unless the caller brings one. Two calls with the same one at the same time end the
// process, also where their results happen to be right.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dnnl.h>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <vector>

struct dnnl_primitive_desc {
  dnnl_matmul_desc_t matmul;
  bool adds, callersScratchpad;
  dnnl_memory_desc_t scratchpad;
};
struct dnnl_primitive_desc_iterator {
  dnnl_primitive_desc description;
};
struct dnnl_primitive {
  dnnl_primitive_desc description;
  mutable std::vector<float> scratchpad;
};

namespace {

[[noreturn]] void refuse(const char *what) {
  std::fprintf(stderr, "stand-in of oneDNN: %s\n", what);
  std::abort();
}

// Scratchpads that calls write at this moment.
class InUse {
public:
  explicit InUse(const void *scratchpad) : scratchpad_(scratchpad) {
    const std::lock_guard lock(mutex());
    if (!all().insert(scratchpad).second)
      refuse("two calls write one scratchpad at the same time");
  }
  ~InUse() {
    const std::lock_guard lock(mutex());
    all().erase(scratchpad_);
  }

private:
  static std::mutex &mutex() {
    static std::mutex mutex;
    return mutex;
  }
  static std::set<const void *> &all() {
    static std::set<const void *> all;
    return all;
  }
  const void *scratchpad_;
};

// A matrix in memory, of either type, at its strides.
struct Matrix {
  char *data;
  const dnnl_memory_desc_t &layout;

  int64_t rows() const { return layout.dims[0]; }
  int64_t columns() const { return layout.dims[1]; }
  float get(int64_t row, int64_t column) const {
    if (layout.data_type == dnnl_f32)
      return reinterpret_cast<const float *>(data)[at(row, column)];
    return std::bit_cast<float>(uint32_t(reinterpret_cast<const uint16_t *>(data)[at(row, column)]) << 16);
  }
  void set(int64_t row, int64_t column, float value) const {
    if (layout.data_type == dnnl_f32)
      reinterpret_cast<float *>(data)[at(row, column)] = value;
    else
      reinterpret_cast<uint16_t *>(data)[at(row, column)] = rounded(value);
  }

private:
  int64_t at(int64_t row, int64_t column) const {
    const dnnl_dim_t *strides = layout.format_desc.blocking.strides;
    return row * strides[0] + column * strides[1];
  }
  static uint16_t rounded(float value) { // to nearest even
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if (value != value)
      return uint16_t(bits >> 16 | 0x40);
    return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
};

void *dataOf(std::span<const dnnl_exec_arg_t> arguments, int which) {
  for (const dnnl_exec_arg_t &argument : arguments)
    if (argument.arg == which) {
      void *data = nullptr;
      dnnl_memory_get_data_handle(argument.memory, &data);
      return data;
    }
  return nullptr;
}

void multiply(const dnnl_primitive_desc &product, const Matrix &a, const Matrix &b, const Matrix &c, float *row) {
  for (int64_t i = 0; i < c.rows(); ++i) {
    for (int64_t j = 0; j < c.columns(); ++j)
      row[j] = product.adds ? c.get(i, j) : 0;
    for (int64_t p = 0; p < a.columns(); ++p)
      for (int64_t j = 0; j < c.columns(); ++j)
        row[j] += a.get(i, p) * b.get(p, j);
    std::this_thread::yield();
    for (int64_t j = 0; j < c.columns(); ++j)
      c.set(i, j, row[j]);
  }
}

} // namespace

#define MGC_STAND_IN extern "C" __attribute__((visibility("default")))

MGC_STAND_IN dnnl_cpu_isa_t dnnl_get_effective_cpu_isa() { return dnnl_cpu_isa_avx512_core_bf16; }

MGC_STAND_IN dnnl_status_t dnnl_primitive_desc_iterator_create(dnnl_primitive_desc_iterator_t *iterator,
                                                               const_dnnl_op_desc_t operation,
                                                               const_dnnl_primitive_attr_t attributes, dnnl_engine_t,
                                                               const_dnnl_primitive_desc_t) {
  const auto &matmul = *static_cast<const dnnl_matmul_desc_t *>(operation);
  if (matmul.primitive_kind != dnnl_matmul)
    return dnnl_unimplemented;
  const_dnnl_post_ops_t operations = nullptr;
  dnnl_scratchpad_mode_t mode{};
  dnnl_primitive_attr_get_post_ops(attributes, &operations);
  dnnl_primitive_attr_get_scratchpad_mode(attributes, &mode);
  auto *made = new dnnl_primitive_desc_iterator{
      {matmul, dnnl_post_ops_len(operations) > 0, mode == dnnl_scratchpad_mode_user, {}}};
  const dnnl_dim_t bytes = matmul.dst_desc.dims[1] * dnnl_dim_t(sizeof(float)), one = 1;
  if (made->description.callersScratchpad)
    dnnl_memory_desc_init_by_strides(&made->description.scratchpad, 1, &bytes, dnnl_u8, &one);
  *iterator = made;
  return dnnl_success;
}
MGC_STAND_IN dnnl_primitive_desc_t dnnl_primitive_desc_iterator_fetch(const_dnnl_primitive_desc_iterator_t iterator) {
  return new dnnl_primitive_desc(iterator->description);
}
MGC_STAND_IN dnnl_status_t dnnl_primitive_desc_iterator_destroy(dnnl_primitive_desc_iterator_t iterator) {
  delete iterator;
  return dnnl_success;
}
MGC_STAND_IN dnnl_status_t dnnl_primitive_desc_destroy(dnnl_primitive_desc_t description) {
  delete description;
  return dnnl_success;
}
MGC_STAND_IN const dnnl_memory_desc_t *dnnl_primitive_desc_query_md(const_dnnl_primitive_desc_t description,
                                                                    dnnl_query_t what, int) {
  if (what != dnnl_query_scratchpad_md)
    refuse("a query that it does not know");
  return &description->scratchpad;
}

MGC_STAND_IN dnnl_status_t dnnl_primitive_create(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t description) {
  const int64_t columns = description->matmul.dst_desc.dims[1];
  *primitive = new dnnl_primitive{*description, std::vector<float>(description->callersScratchpad ? 0 : columns)};
  return dnnl_success;
}
MGC_STAND_IN dnnl_status_t dnnl_primitive_destroy(dnnl_primitive_t primitive) {
  delete primitive;
  return dnnl_success;
}
MGC_STAND_IN dnnl_status_t dnnl_primitive_execute(const_dnnl_primitive_t primitive, dnnl_stream_t, int count,
                                                  const dnnl_exec_arg_t *all) {
  const std::span arguments(all, size_t(count));
  const dnnl_primitive_desc &product = primitive->description;
  const auto matrix = [&](int which, const dnnl_memory_desc_t &layout) {
    return Matrix{static_cast<char *>(dataOf(arguments, which)), layout};
  };
  auto *scratchpad = product.callersScratchpad ? static_cast<float *>(dataOf(arguments, DNNL_ARG_SCRATCHPAD))
                                               : primitive->scratchpad.data();
  if (!scratchpad)
    refuse("a call brings no scratchpad, which its primitive wants");
  const InUse inUse(scratchpad);
  multiply(product, matrix(DNNL_ARG_SRC, product.matmul.src_desc),
           matrix(DNNL_ARG_WEIGHTS, product.matmul.weights_desc), matrix(DNNL_ARG_DST, product.matmul.dst_desc),
           scratchpad);
  return dnnl_success;
}
