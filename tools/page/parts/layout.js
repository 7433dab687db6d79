// Which ranks are where, and what each stage has.

function showLayout(section, {facts, ranks}) {
  const axes = facts.mesh.map(axis => axis.name);
  section.querySelector(".stages").append(...ranks.map((list, stage) => element("div", {class: "stage"},
    element("h3", {}, `stage ${stage}`, element("span", {}, layersText(facts.stages[stage]))),
    element("ul", {class: "ranks", "aria-label": `Ranks of stage ${stage}`}, ...list.map(([rank, places]) => element("li", {
      title: `rank ${rank}: ${axes.map((axis, index) => `${axis} ${places[index]}`).join(", ")}`,
    }, String(rank)))))));
  if (ranks.length === 0)
    section.querySelector(".stages").append(
      element("p", {class: "note"}, `${facts.ranks} ranks: too many to be drawn one by one.`));
  section.querySelector(".tables").append(stageTable(facts), optionTable(facts));
}

function layersText({layers, encoder_layers: ofEncoder}) {
  const textOf = (name, ranges) => ranges.length ? [`${name} ${ranges.map(rangeText).join(", ")}`] : [];
  return [...textOf("encoder layers", ofEncoder), ...textOf("layers", layers)].join(", ") || "no layers";
}

function stageTable(facts) {
  return tableSection(
    "Each rank of a stage",
    [...["stage", "layers"].map(textColumn), ...["parameters", "FLOP of a step", "idle"].map(numberColumn)],
    facts.stages.map((stage, number) => [
      String(number), layersText(stage), countText(stage.parameters), countText(stage.flops), percentText(stage.idle)]));
}

// All that explain --json says in one value.
function optionTable(facts) {
  const rows = Object.entries(facts).filter(([, value]) => typeof value !== "object");
  return tableSection("The plan", [textColumn("fact"), textColumn("value")],
                      [["mesh, first axis outermost", facts.mesh.map(({name, size}) => `${name} ${size}`).join(" x ")],
                       ...rows.map(([name, value]) => [words(name), String(value)])]);
}
