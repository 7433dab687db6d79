// Shows the data: a section each, in the order in which they stand in page.html.

function showHead({facts, run}) {
  const {prediction} = facts;
  const ranks = facts.ranks === 1 ? "one rank" : `${facts.ranks} ranks`;
  const title = `${facts.model}: ${countText(facts.parameters)} parameters on ${ranks}`;
  document.title = `${title}, ${run ? "a run" : "a plan"} of mgc`;
  document.querySelector("h1").textContent = title;
  const mesh = facts.mesh.map(({name, size}) => `${name} ${size}`).join(" x ") || "1 rank";
  const tiles = [
    ["mesh", mesh],
    ["batch", `${facts.global_batch_size} x ${facts.sequence_length} tokens`],
    ["predicted step", `${timeText(1e9 * prediction.seconds)} on ${prediction.machine}`],
    ["predicted MFU", percentText(prediction.mfu)],
    ["largest rank", bytesText(Math.max(...facts.stages.map(stage => stage.bytes)))],
  ];
  if (facts.fits)
    tiles.push([`device of ${bytesText(facts.fits.device_bytes)}`, fitsText(facts.fits)]);
  if (run?.profile)
    tiles.push([`measured step, of ${stepCount(run.profile)}`, measuredText(run.profile)]);
  if (run?.steps.length)
    tiles.push(["loss", `${numberText(run.steps[0].loss)} to ${numberText(run.steps.at(-1).loss)}`]);
  document.getElementById("tiles").append(...tiles.map(([name, value]) =>
    element("li", {}, element("span", {}, name), element("strong", {}, value))));
}

function showPage(page) {
  const section = id => document.getElementById(id);
  showHead(page);
  showRun(section("training"), section("kernels"), page);
  showPipeline(section("pipeline"), page);
  showTime(section("time"), page);
  showMemory(section("memory"), page);
  showBudget(section("budget"), page);
  showTraffic(section("traffic"), page);
  showLayout(section("layout"), page);
  showSections();
}

showPage(JSON.parse(document.getElementById("data").textContent));
