// The types of the plan as the device ABI names them.
#pragma once

#include "plan/Plan.h"
#include "runtime/device/DeviceApi.h"

namespace mgc {

constexpr mgc_type deviceType(plan::DType type) {
  switch (type) {
  case plan::DType::f32:
    return MGC_F32;
  case plan::DType::bf16:
    return MGC_BF16;
  case plan::DType::i32:
    break;
  }
  return MGC_I32;
}

constexpr mgc_epilogue deviceEpilogue(plan::Epilogue epilogue) {
  switch (epilogue) {
  case plan::Epilogue::none:
    break;
  case plan::Epilogue::bias:
    return MGC_BIAS;
  case plan::Epilogue::gelu:
    return MGC_BIAS_GELU;
  }
  return MGC_NO_EPILOGUE;
}

constexpr mgc_reduce deviceReduce(plan::ReduceKind kind) {
  return kind == plan::ReduceKind::max ? MGC_MAX : MGC_SUM;
}

} // namespace mgc
