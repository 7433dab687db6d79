// See AutoReport.h.
#include "tools/auto/AutoReport.h"

#include <nlohmann/json.hpp>

namespace mgc::tools {

namespace {

using Json = nlohmann::ordered_json;

Json jsonOf(const AutoReport &report, const AutoSize &size, const ProvedLayout &layout) {
  Json json = {{"layout", layout.layout},
               {"command", layout.command},
               {"seconds", layout.seconds},
               {"tokens_per_second", layout.tokensPerSecond},
               {"mfu", layout.utilisation},
               {"bytes", layout.bytes},
               {"host_bytes", layout.hostBytes},
               {"searched", {{"seconds", layout.searchedSeconds}, {"bytes", layout.searchedBytes}}}};
  if (report.trainSamples > 0) {
    json["days"] = report.daysOf(layout.seconds);
    json["device_hours"] = report.daysOf(layout.seconds) * 24 * double(size.devices);
  }
  if (!layout.problem.empty())
    json["problem"] = layout.problem;
  return json;
}

Json jsonOf(const AutoCounts &counts) {
  return {{"enumerated", counts.enumerated},
          {"refused", counts.refused},
          {"left_out_by_memory", counts.tooLarge},
          {"left_out_by_time", counts.tooSlow},
          {"estimated", counts.estimated},
          {"other_cuts", counts.cuts},
          {"unfit", counts.unfit},
          {"shapes", counts.shapes},
          {"compiled", counts.compiled},
          {"seconds", counts.seconds}};
}

Json jsonOf(const std::vector<PartDifference> &differences) {
  Json json = Json::object();
  for (const PartDifference &difference : differences)
    json[difference.part] = difference.seconds;
  return json;
}

Json jsonOf(const OtherValue &other) {
  Json json = {{"flag", other.flag}, {"value", other.value}};
  if (other.layout.empty()) {
    json["refusal"] = other.refusal;
  } else {
    json["seconds"] = other.seconds, json["bytes"] = other.bytes, json["layout"] = other.layout;
    json["differences"] = jsonOf(other.differences);
  }
  return json;
}

Json jsonOf(const AutoReport &report, const AutoSize &size, const AskedLayout &asked) {
  Json json = {{"options", asked.asked}};
  if (asked.layout) {
    json.update(jsonOf(report, size, *asked.layout));
    json["differences"] = jsonOf(asked.differences);
  } else {
    json["refusal"] = asked.refusal;
  }
  return json;
}

Json jsonOf(const ChangedMachine &changed) {
  return {{"machine", changed.change}, {"order", changed.order()}, {"seconds", changed.seconds}};
}

Json jsonOf(const AutoReport &report, const AutoSize &size) {
  Json json = {{"devices", size.devices}, {"layouts", Json::array()}, {"counts", jsonOf(size.counts)}};
  for (const ProvedLayout &layout : size.layouts)
    json["layouts"].push_back(jsonOf(report, size, layout));
  if (size.layouts.empty())
    json["refusal"] = size.refusal;
  if (size.nearest && size.nearest->layout)
    json["nearest"] = jsonOf(report, size, *size.nearest->layout);
  if (size.nearest && size.nearest->devices > 0)
    json["more_devices"] = {{"devices", size.nearest->devices}, {"layout", size.nearest->onThese}};
  if (size.others) {
    json["why_not"] = Json::array();
    for (const OtherValue &other : *size.others)
      json["why_not"].push_back(jsonOf(other));
  }
  for (const AskedLayout &asked : size.asked)
    json["explained"].push_back(jsonOf(report, size, asked));
  if (size.pareto) {
    for (const ProvedLayout &layout : size.pareto->layouts)
      json["pareto"].push_back(jsonOf(report, size, layout));
    json["too_little_memory"] = size.pareto->tooLittle;
  }
  if (size.changes)
    for (const ChangedMachine &changed : *size.changes)
      json["sensitivity"].push_back(jsonOf(changed));
  return json;
}

} // namespace

std::string jsonOf(const AutoReport &report) {
  Json json = {{"model", report.model},
               {"machine", report.machine},
               {"target", report.target},
               {"dtype", report.dtype},
               {"memory", report.memory},
               {"global_batch_size", report.globalBatchSize},
               {"sequence_length", report.sequenceLength},
               {"sizes", Json::array()}};
  if (report.imbalance)
    json["expert_load"] = *report.imbalance > 1 ? Json(*report.imbalance) : Json("even");
  for (const AutoSize &size : report.sizes)
    json["sizes"].push_back(jsonOf(report, size));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace mgc::tools
