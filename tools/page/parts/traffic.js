// What ranks send in a step, over which axes of the mesh.

// Messages between neighbours are one row, whichever stages they are.
const overOf = ({operation, over}) => operation === "send" ? "neighbouring stages" : over;

function showTraffic(section, {facts}) {
  const overs = [...new Set(facts.stages.flatMap(stage => stage.traffic.map(overOf)))];
  const operations = [...new Set(facts.stages.flatMap(stage => stage.traffic.map(one => one.operation)))];
  const colours = seriesOf(operations);
  section.hidden = overs.length === 0;
  fillBars(section.querySelector(".bars"), overs.map(over => busiest(facts.stages, over, colours)));
  const legend = element("ul", {class: "legend", "aria-label": "Colours of operations"});
  fillLegend(legend, operations.map(operation => [words(operation), colours.get(operation)]));
  section.querySelector(".bars").append(legend);
  section.querySelector(".tables").append(tableSection(
    "Sent by a rank in a step",
    [textColumn("stage"), textColumn("operation"), textColumn("over"), numberColumn("ranks"), numberColumn("times"),
     numberColumn("bytes")],
    facts.stages.flatMap((stage, number) => stage.traffic.map(one => [
      String(number), words(one.operation), one.over, String(one.ranks), String(one.count), bytesText(one.bytes)]))));
}

// The bar of the stage whose ranks send most over these ranks.
function busiest(stages, over, colours) {
  const operations = [...colours.keys()];
  const sums = stages.map(stage => operations.map(operation => stage.traffic
    .filter(one => one.operation === operation && overOf(one) === over).reduce((sum, one) => sum + one.bytes, 0)));
  const total = parts => parts.reduce((sum, bytes) => sum + bytes, 0);
  const most = sums.reduce((best, parts) => total(parts) > total(best) ? parts : best);
  return {
    name: over, text: bytesText(total(most)),
    parts: most.map((value, index) => ({
      value, colour: colours.get(operations[index]), text: `${words(operations[index])}: ${bytesText(value)}`})),
  };
}
