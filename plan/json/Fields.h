// The fields of every plan struct as they stand in plan.json: one `fields` per struct drives reader and
// writer, so a field is named in one place. In: a visitor and a struct type. Out: visitor.required / optional
// / alternatives with the name and the member pointer of each field, in the order of the file. A field that
// is optional and missing has the default of its struct.
#pragma once

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
template <> inline constexpr bool isTuple<Scalar::Term> = true;

// --- Fields ------------------------------------------------------------------------------------------------

template <typename V> void fields(V &v, Of<Axis>) {
  v.required("name", &Axis::name);
  v.required("size", &Axis::size);
  v.required("role", &Axis::role);
}

template <typename V> void fields(V &v, Of<Mesh>) {
  v.required("axes", &Mesh::axes);
  v.required("named", &Mesh::named);
}

template <typename V> void fields(V &v, Of<ParameterDim>) {
  v.required("name", &ParameterDim::name);
  v.required("size", &ParameterDim::size);
  v.required("valid", &ParameterDim::valid);
  v.optional("axes", &ParameterDim::axes);
}

template <typename V> void fields(V &v, Of<Repeat>) {
  v.required("begin", &Repeat::begin);
  v.required("end", &Repeat::end);
  v.required("count", &Repeat::count);
}

template <typename V> void fields(V &v, Of<Parameter::Place>) {
  v.required("stage", &Parameter::Place::stage);
  v.required("bucket", &Parameter::Place::bucket);
  v.required("elementOffset", &Parameter::Place::elementOffset);
  v.optional("first", &Parameter::Place::first);
  v.optional("count", &Parameter::Place::count);
  v.optional("stride", &Parameter::Place::stride);
}

template <typename V> void fields(V &v, Of<Parameter::Rows>) {
  v.required("dims", &Parameter::Rows::dims);
  v.required("offset", &Parameter::Rows::offset);
  v.required("extent", &Parameter::Rows::extent);
}

template <typename V> void fields(V &v, Of<Parameter>) {
  v.required("name", &Parameter::name);
  v.required("tensor", &Parameter::tensor);
  v.optional("aliases", &Parameter::aliases);
  v.optional("stacked", &Parameter::stacked);
  v.required("fileShape", &Parameter::fileShape);
  v.optional("tensorShape", &Parameter::tensorShape);
  v.required("grouping", &Parameter::grouping);
  v.required("offset", &Parameter::offset);
  v.required("dims", &Parameter::dims);
  v.required("init", &Parameter::init);
  v.optional("initStd", &Parameter::initStd);
  v.optional("activeShare", &Parameter::activeShare);
  v.required("places", &Parameter::places);
  v.optional("rows", &Parameter::rows);
}

template <typename V> void fields(V &v, Of<Bucket>) {
  v.required("name", &Bucket::name);
  v.required("elements", &Bucket::elements);
  v.optional("splitAxes", &Bucket::splitAxes);
  v.optional("reduceAxes", &Bucket::reduceAxes);
  v.optional("dataAxes", &Bucket::dataAxes);
  v.optional("sharded", &Bucket::sharded);
  v.optional("tiedStages", &Bucket::tiedStages);
  v.required("valueOffset", &Bucket::valueOffset);
  v.required("gradientOffset", &Bucket::gradientOffset);
  v.required("firstMomentOffset", &Bucket::firstMomentOffset);
  v.required("secondMomentOffset", &Bucket::secondMomentOffset);
  v.required("gradientShardOffset", &Bucket::gradientShardOffset);
  v.optional("masterOffset", &Bucket::masterOffset);
  v.optional("meanLoad", &Bucket::meanLoad);
  v.optional("counts", &Bucket::counts);
  v.optional("frozen", &Bucket::frozen);
}

template <typename V> void fields(V &v, Of<Operand>) {
  v.required("segment", &Operand::segment);
  v.required("offset", &Operand::offset);
  v.optional("value", &Operand::value);
  v.optional("stride", &Operand::stride);
}

template <typename V> void fields(V &v, Of<Scalar::Term>) {
  v.required("axes", &Scalar::Term::axes);
  v.required("scale", &Scalar::Term::scale);
}

template <typename V> void fields(V &v, Of<Scalar>) {
  v.optional("kind", &Scalar::kind);
  v.optional("value", &Scalar::value);
  v.optional("terms", &Scalar::terms);
}

template <typename V> void fields(V &v, Of<Program>) {
  v.required("name", &Program::name);
  v.required("segments", &Program::segments);
  v.required("segmentBytes", &Program::segmentBytes);
  v.optional("frame", &Program::frame);
  v.required("instructions", &Program::instructions);
  v.optional("repeats", &Program::repeats);
}

template <typename V> void fields(V &v, Of<Binding>) {
  v.required("slot", &Binding::slot);
  v.required("offset", &Binding::offset);
  v.optional("stride", &Binding::stride);
}

template <typename V> void fields(V &v, Of<Call>) {
  v.required("program", &Call::program);
  v.required("instance", &Call::instance);
  v.optional("instanceStride", &Call::instanceStride);
  v.required("segments", &Call::segments);
}

template <typename V> void fields(V &v, Of<Chunk>) {
  v.required("task", &Chunk::task);
  v.optional("virtualStage", &Chunk::virtualStage);
  v.required("slots", &Chunk::slots);
  v.required("calls", &Chunk::calls);
  v.optional("repeats", &Chunk::repeats);
}

template <typename V> void fields(V &v, Of<Ring::Turn>) {
  v.required("first", &Ring::Turn::first);
  v.required("slots", &Ring::Turn::slots);
  v.required("phase", &Ring::Turn::phase);
}

template <typename V> void fields(V &v, Of<Ring>) {
  v.required("name", &Ring::name);
  v.required("bytes", &Ring::bytes);
  v.required("offset", &Ring::offset);
  v.optional("stride", &Ring::stride);
  v.optional("turns", &Ring::turns);
  v.optional("peer", &Ring::peer);
  v.optional("value", &Ring::value);
}

template <typename V> void fields(V &v, Of<ScheduleStep>) {
  v.optional("kind", &ScheduleStep::kind);
  v.optional("chunk", &ScheduleStep::chunk);
  v.optional("ring", &ScheduleStep::ring);
  v.optional("microbatch", &ScheduleStep::microbatch);
  v.optional("stride", &ScheduleStep::microbatchStride);
  v.optional("firstCall", &ScheduleStep::firstCall);
  v.optional("callCount", &ScheduleStep::callCount);
  v.optional("paired", &ScheduleStep::paired);
  v.optional("waits", &ScheduleStep::waits);
}

template <typename V> void fields(V &v, Of<Input::Dim>) {
  v.required("name", &Input::Dim::name);
  v.required("size", &Input::Dim::size);
  v.optional("axes", &Input::Dim::axes);
}

template <typename V> void fields(V &v, Of<Input>) {
  v.required("kind", &Input::kind);
  v.required("type", &Input::type);
  v.required("dims", &Input::dims);
  v.required("ring", &Input::ring);
  v.optional("shift", &Input::shift);
  v.optional("ofEncoder", &Input::ofEncoder);
}

template <typename V> void fields(V &v, Of<Region>) {
  v.required("kind", &Region::kind);
  v.required("offset", &Region::offset);
  v.required("bytes", &Region::bytes);
}

template <typename V> void fields(V &v, Of<StagePlan>) {
  v.required("bytes", &StagePlan::bytes);
  v.required("leastBytes", &StagePlan::leastBytes);
  v.required("stepScalarsOffset", &StagePlan::stepScalarsOffset);
  v.required("resultsOffset", &StagePlan::resultsOffset);
  v.required("regions", &StagePlan::regions);
  v.required("buckets", &StagePlan::buckets);
  v.required("rings", &StagePlan::rings);
  v.required("inputs", &StagePlan::inputs);
  v.required("chunks", &StagePlan::chunks);
  v.required("schedule", &StagePlan::schedule);
  v.optional("repeats", &StagePlan::repeats);
}

template <typename V> void fields(V &v, Of<KernelFile>) {
  v.required("level", &KernelFile::level);
  v.required("path", &KernelFile::path);
  v.required("hash", &KernelFile::hash);
}

template <typename V> void fields(V &v, Of<Images>) {
  v.required("channels", &Images::channels);
  v.required("patchSize", &Images::patchSize);
  v.required("rows", &Images::rows);
  v.required("columns", &Images::columns);
  v.optional("classTokens", &Images::classTokens);
  v.required("token", &Images::token);
  v.optional("firstFeature", &Images::firstFeature);
}

// Without `version`: it stands in the header, next to the checksum of all this.
template <typename V> void fields(V &v, Of<Plan>) {
  v.required("modelType", &Plan::modelType);
  v.required("modelConfig", &Plan::modelConfig);
  v.required("mesh", &Plan::mesh);
  v.required("sequenceLength", &Plan::sequenceLength);
  v.optional("encoderLength", &Plan::encoderLength);
  v.optional("startToken", &Plan::startToken);
  v.optional("paddingToken", &Plan::paddingToken);
  v.optional("images", &Plan::images);
  v.optional("tokenTypes", &Plan::tokenTypes);
  v.optional("objective", &Plan::objective);
  v.optional("zigzag", &Plan::zigzag);
  v.optional("longestDocument", &Plan::longestDocument);
  v.required("microBatchSize", &Plan::microBatchSize);
  v.required("globalBatchSize", &Plan::globalBatchSize);
  v.required("microbatches", &Plan::microbatches);
  v.required("vocabulary", &Plan::vocabulary);
  v.required("zero", &Plan::zero);
  v.required("schedule", &Plan::schedule);
  v.required("virtualStages", &Plan::virtualStages);
  v.required("target", &Plan::target);
  v.required("dtype", &Plan::dtype);
  v.required("gradientType", &Plan::gradientType);
  v.required("kernels", &Plan::kernels);
  v.required("parameters", &Plan::parameters);
  v.optional("ignoredTensors", &Plan::ignoredTensors);
  v.required("programs", &Plan::programs);
  v.required("stages", &Plan::stages);
}

} // namespace mgc::plan
