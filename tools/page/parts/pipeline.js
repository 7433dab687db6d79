// The step as predicted, and below it as measured: rows of boxes for the timeline, and what a box is made of.

const kTipRows = 8; // instructions

const isPerMicrobatch = microbatch => microbatch >= 0;

function boxOf(chunk, [number, microbatch, begin, end, sums]) {
  return {
    chunk, number, microbatch, begin, end, sums,
    colour: chunk.task,
    text: isPerMicrobatch(microbatch) ? String(microbatch) : "",
    isThin: chunk.task === "gradients",              // on a stream of its own
    isPale: isPerMicrobatch(microbatch) && chunk.name.match(/\d+$/)?.[0] % 2 === 1, // chunks of a stage are told apart
  };
}

const byBegin = (a, b) => a.begin - b.begin;

function measuredTitle({step, ranks, world, machines}) {
  const some = ranks.length < world ? `; ${ranks.length} of ${world} ranks` : "";
  const clocks = machines > 1 ? `; clocks of ${machines} machines are set equal where the step begins` : "";
  return `measured, step ${step}: of the traced steps the one of median length${some}${clocks}`;
}

function pipelineGroups({pipeline, facts, run}) {
  const predicted = pipeline.stages.map(({chunks, boxes}, stage) => ({
    label: `stage ${stage}`, stage,
    boxes: boxes.map(box => boxOf(chunks[box[0]], box)).filter(box => box.end > box.begin).sort(byBegin),
  }));
  const groups = [{title: `predicted on ${facts.prediction.machine}`, rows: predicted}];
  if (run?.trace)
    groups.push({
      title: measuredTitle(run.trace),
      rows: run.trace.ranks.map(({rank, stage, boxes}) => ({
        label: `rank ${rank} (${stage})`, stage, isMeasured: true,
        boxes: boxes.map(box => boxOf(pipeline.stages[stage].chunks[box[0]], box)),
      })),
    });
  return groups;
}

// Predicted ns of a run of the chunk by instruction, "program:number". Calls of one program are summed.
function predictedInstructions(pipeline, chunk) {
  const sums = new Map();
  for (const [program, runs] of chunk.calls)
    pipeline.programs[program].instructions.forEach(([label, kind, ns, times], number) => {
      const key = `${program}:${number}`;
      sums.set(key, {label, kind, predicted: (sums.get(key)?.predicted ?? 0) + ns * times * runs});
    });
  return sums;
}

// Of a box: {label, kind, predicted, measured, waiting}, those with most time first.
function instructionsOf(pipeline, box) {
  const all = predictedInstructions(pipeline, box.chunk);
  for (const [program, number, measured, waiting] of box.sums ?? [])
    Object.assign(all.get(`${program}:${number}`) ?? {}, {measured, waiting});
  const key = box.sums ? "measured" : "predicted";
  return [...all.values()].sort((a, b) => (b[key] ?? 0) - (a[key] ?? 0));
}

function describeBox(pipeline, box, row) {
  const microbatch = isPerMicrobatch(box.microbatch) ? `, microbatch ${box.microbatch}` : "";
  const title = `${box.chunk.name}${microbatch}, ${row.isMeasured ? row.label.replace(/ \(.*/, "") : `stage ${row.stage}`}`;
  const times = `${timeText(box.end - box.begin)} from ${timeText(box.begin)} on`;
  const instructions = instructionsOf(pipeline, box);
  const waiting = instructions.reduce((sum, one) => sum + (one.waiting ?? 0), 0);
  const lines = [`${times}${!row.isMeasured ? ", predicted" : box.sums ? `, ${timeText(waiting)} of it waiting for other ranks` : ""}`];
  const columns = row.isMeasured ? ["measured", "waiting", "predicted"] : ["predicted"];
  const rows = instructions.slice(0, kTipRows).map(one =>
    [one.label, one.kind, ...columns.map(name => one[name] === undefined ? "" : timeText(one[name]))]);
  const rest = instructions.length - rows.length;
  const table = tableOf(`Instructions of ${box.chunk.name}, each by itself`,
                        [textColumn("instruction"), textColumn("kind"), ...columns.map(numberColumn)], rows);
  table.querySelector("caption").className = "sr-only";
  const tip = element("div", {}, element("strong", {}, title), element("div", {}, ...lines), ...(rows.length ? [table] : []),
                      rest > 0 ? `and ${rest} more instructions` : "");
  return {tip, text: [title, ...lines, ...rows.slice(0, 3).map(texts => texts.join(" "))].join("; ")};
}

function showPipeline(section, page) {
  const groups = pipelineGroups(page), {pipeline, facts} = page;
  const tasks = new Set(groups.flatMap(group => group.rows.flatMap(row => row.boxes.map(box => box.chunk.task))));
  fillLegend(section.querySelector(".legend"), [...tasks].map(task => [task, task]));
  section.querySelector(".note").textContent =
    `Schedule ${facts.schedule}, ${facts.microbatches} microbatches; the bubble is ` +
    `${percentText(facts.prediction.bubble)} of the predicted step. A box is a task with the number of its microbatch; point at it for the times of its instructions.`;
  const parts = ["canvas", ".tip", "[aria-live]", ".range"].map(name => section.querySelector(name));
  const timeline = new Timeline(...parts, groups, (box, row) => describeBox(pipeline, box, row));
  section.querySelector("[data-key=p]").hidden = groups.length === 1;
  for (const button of section.querySelectorAll("[data-key]"))
    button.addEventListener("click", () => timeline.press(button.dataset.key, false));
}
