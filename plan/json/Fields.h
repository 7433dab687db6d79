// The fields of every plan struct as they stand in plan.json: one `fields` per struct drives reader and
// writer, so a field is named in one place. In: a visitor and a struct type. Out: visitor.required / optional
// / alternatives with the name and the member pointer of each field, in the order of the file. A field that
// is optional and missing has the default of its struct.
#pragma once

#include "plan/Optimizers.h"
#include "plan/Plan.h"

#include <array>
#include <string_view>

namespace mgc::plan {

// --- Structs whose fields stand on a line each; all others are one line ------------------------------------

template <> inline constexpr bool onManyLines<Plan> = true;
template <> inline constexpr bool onManyLines<Program> = true;
template <> inline constexpr bool onManyLines<StagePlan> = true;
template <> inline constexpr bool onManyLines<Chunk> = true;

// --- Structs whose fields are a list, without names: short ones of which there are many. Fields at its end may be missing that
// are optional -----------------------------------------------------------------------------------------------

template <> inline constexpr bool isTuple<Repeat> = true;
template <> inline constexpr bool isTuple<Operand> = true;
template <> inline constexpr bool isTuple<Binding> = true;
template <> inline constexpr bool isTuple<Ring::Turn> = true;
template <> inline constexpr bool isTuple<Parameter::Place> = true;
template <> inline constexpr bool isTuple<Region> = true;
template <> inline constexpr bool isTuple<ParameterDim> = true;
template <> inline constexpr bool isTuple<Input::Dim> = true;
template <> inline constexpr bool isTuple<Setting> = true;
template <> inline constexpr bool isTuple<PlanBudget::Point> = true;
template <> inline constexpr bool isTuple<PlanFit::Change> = true;
template <> inline constexpr bool isTuple<Scalar::Term> = true;

// --- Fields ------------------------------------------------------------------------------------------------

template <typename V> constexpr void fields(V &v, Of<Axis>) { required<&Axis::name, &Axis::size, &Axis::role>(v); }

template <typename V> constexpr void fields(V &v, Of<Mesh>) { required<&Mesh::axes, &Mesh::named>(v); }

template <typename V> constexpr void fields(V &v, Of<ParameterDim>) {
  required<&ParameterDim::name, &ParameterDim::size, &ParameterDim::valid>(v);
  optional<&ParameterDim::axes>(v);
}

template <typename V> constexpr void fields(V &v, Of<Repeat>) {
  required<&Repeat::begin, &Repeat::end, &Repeat::count>(v);
}

template <typename V> constexpr void fields(V &v, Of<Parameter::Place>) {
  required<&Parameter::Place::stage, &Parameter::Place::bucket, &Parameter::Place::elementOffset>(v);
  optional<&Parameter::Place::first, &Parameter::Place::count, &Parameter::Place::stride, &Parameter::Place::uses>(v);
}

template <typename V> constexpr void fields(V &v, Of<Parameter::Rows>) {
  required<&Parameter::Rows::dims, &Parameter::Rows::offset, &Parameter::Rows::extent>(v);
}

template <typename V> constexpr void fields(V &v, Of<Parameter>) {
  required<&Parameter::name, &Parameter::tensor>(v);
  optional<&Parameter::aliases, &Parameter::stacked>(v);
  required<&Parameter::fileShape>(v);
  optional<&Parameter::tensorShape>(v);
  required<&Parameter::grouping, &Parameter::offset, &Parameter::dims, &Parameter::init>(v);
  optional<&Parameter::initStd, &Parameter::activeShare, &Parameter::ofEncoder, &Parameter::positions>(v);
  required<&Parameter::places>(v);
  optional<&Parameter::rows>(v);
}

template <typename V> constexpr void fields(V &v, Of<Bucket>) {
  required<&Bucket::name, &Bucket::elements>(v);
  optional<&Bucket::units, &Bucket::use, &Bucket::splitAxes, &Bucket::reduceAxes, &Bucket::dataAxes, &Bucket::shardAxes,
           &Bucket::outerAxes, &Bucket::tiedStages, &Bucket::meanLoad>(v);
  required<&Bucket::states>(v);
}

template <typename V> constexpr void fields(V &v, Of<State>) {
  required<&State::name, &State::role, &State::type>(v);
  optional<&State::sliced>(v);
  required<&State::offset>(v);
  optional<&State::hostElements, &State::hostOffset>(v);
}

template <typename V> constexpr void fields(V &v, Of<Operand>) {
  required<&Operand::segment, &Operand::offset>(v);
  optional<&Operand::value, &Operand::stride>(v);
}

template <typename V> constexpr void fields(V &v, Of<Scalar::Term>) {
  required<&Scalar::Term::axes, &Scalar::Term::scale>(v);
}

template <typename V> constexpr void fields(V &v, Of<Scalar>) {
  optional<&Scalar::kind, &Scalar::value, &Scalar::terms>(v);
}

template <typename V> constexpr void fields(V &v, Of<Program>) {
  required<&Program::name, &Program::segments, &Program::segmentBytes>(v);
  optional<&Program::policy, &Program::frame>(v);
  required<&Program::instructions>(v);
  optional<&Program::repeats>(v);
}

template <typename V> constexpr void fields(V &v, Of<Binding>) {
  required<&Binding::slot, &Binding::offset>(v);
  optional<&Binding::stride>(v);
}

template <typename V> constexpr void fields(V &v, Of<Call>) {
  required<&Call::program, &Call::instance>(v);
  optional<&Call::instanceStride>(v);
  required<&Call::segments>(v);
}

template <typename V> constexpr void fields(V &v, Of<Chunk>) {
  required<&Chunk::task>(v);
  optional<&Chunk::virtualStage, &Chunk::first>(v);
  required<&Chunk::slots, &Chunk::calls>(v);
  optional<&Chunk::repeats>(v);
}

template <typename V> constexpr void fields(V &v, Of<Ring::Turn>) {
  required<&Ring::Turn::first, &Ring::Turn::slots, &Ring::Turn::phase>(v);
}

template <typename V> constexpr void fields(V &v, Of<Ring>) {
  required<&Ring::name, &Ring::bytes, &Ring::offset>(v);
  optional<&Ring::stride, &Ring::turns, &Ring::peer, &Ring::value>(v);
}

template <typename V> constexpr void fields(V &v, Of<ScheduleStep>) {
  optional<&ScheduleStep::kind, &ScheduleStep::chunk, &ScheduleStep::ring, &ScheduleStep::microbatch>(v);
  v.optional("stride", &ScheduleStep::microbatchStride);
  optional<&ScheduleStep::firstCall, &ScheduleStep::callCount, &ScheduleStep::paired, &ScheduleStep::waits>(v);
}

template <typename V> constexpr void fields(V &v, Of<Input::Dim>) {
  required<&Input::Dim::name, &Input::Dim::size>(v);
  optional<&Input::Dim::axes>(v);
}

template <typename V> constexpr void fields(V &v, Of<Input>) {
  required<&Input::kind, &Input::type, &Input::dims, &Input::ring>(v);
  optional<&Input::shift, &Input::ofEncoder>(v);
}

template <typename V> constexpr void fields(V &v, Of<Region>) {
  required<&Region::kind, &Region::offset, &Region::bytes>(v);
}

template <typename V> constexpr void fields(V &v, Of<StagePlan>) {
  required<&StagePlan::bytes, &StagePlan::leastBytes, &StagePlan::stepScalarsOffset, &StagePlan::resultsOffset,
           &StagePlan::regions, &StagePlan::buckets, &StagePlan::rings, &StagePlan::inputs, &StagePlan::chunks,
           &StagePlan::schedule>(v);
  optional<&StagePlan::repeats, &StagePlan::hostBytes>(v);
}

template <typename V> constexpr void fields(V &v, Of<KernelFile>) {
  required<&KernelFile::level, &KernelFile::path, &KernelFile::hash>(v);
}

template <typename V> constexpr void fields(V &v, Of<Images>) {
  required<&Images::channels, &Images::patchSize, &Images::rows, &Images::columns>(v);
  optional<&Images::classTokens>(v);
  required<&Images::token>(v);
  optional<&Images::firstFeature>(v);
}

template <typename V> constexpr void fields(V &v, Of<PlanBudget::Policy>) {
  required<&PlanBudget::Policy::block, &PlanBudget::Policy::policy, &PlanBudget::Policy::kept,
           &PlanBudget::Policy::split, &PlanBudget::Policy::frame, &PlanBudget::Policy::seconds>(v);
}

template <typename V> constexpr void fields(V &v, Of<PlanBudget::Point>) {
  required<&PlanBudget::Point::bytes, &PlanBudget::Point::seconds>(v);
}

template <typename V> constexpr void fields(V &v, Of<PlanBudget>) {
  required<&PlanBudget::bytes, &PlanBudget::seconds>(v);
  optional<&PlanBudget::leastSeconds>(v);
  required<&PlanBudget::policies, &PlanBudget::curve>(v);
}

template <typename V> constexpr void fields(V &v, Of<PlanFit::Change>) {
  required<&PlanFit::Change::flags, &PlanFit::Change::ranks, &PlanFit::Change::bytes, &PlanFit::Change::seconds>(v);
}

template <typename V> constexpr void fields(V &v, Of<PlanFit>) {
  required<&PlanFit::machine, &PlanFit::deviceBytes, &PlanFit::hostBytes>(v);
  optional<&PlanFit::changes>(v);
}

template <typename V> constexpr void fields(V &v, Of<Setting>) {
  required<&Setting::flag, &Setting::value, &Setting::resume>(v);
}

// Without `version`: it stands in the header, next to the checksum of all this.
template <typename V> constexpr void fields(V &v, Of<Plan>) {
  required<&Plan::modelType, &Plan::modelConfig, &Plan::mesh, &Plan::sequenceLength>(v);
  optional<&Plan::encoderLength, &Plan::startToken, &Plan::paddingToken, &Plan::images, &Plan::tokenTypes,
           &Plan::objective, &Plan::zigzag, &Plan::longestDocument>(v);
  required<&Plan::microBatchSize, &Plan::globalBatchSize, &Plan::microbatches, &Plan::vocabulary, &Plan::zero,
           &Plan::schedule, &Plan::virtualStages, &Plan::target, &Plan::dtype, &Plan::gradientType>(v);
  optional<&Plan::placement, &Plan::optimizer, &Plan::budget, &Plan::fit, &Plan::settings>(v);
  required<&Plan::kernels, &Plan::parameters>(v);
  optional<&Plan::ignoredTensors>(v);
  required<&Plan::programs, &Plan::stages>(v);
}

} // namespace mgc::plan
