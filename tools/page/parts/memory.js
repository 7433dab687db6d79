// Memory of each stage's ranks over the step: stacked areas by kind, a line at the device's bytes where the machine has them, and the
// table of what is allocated.

const kMemoryHeight = 120, kDenseHeight = 56;
const kManyStages = 16; // more have smaller charts
const kMostScale = 8;   // a device of more times the largest allocation is above the scale

// fits: {device_bytes, spare_bytes, fits}: "fits, 1.50 GiB to spare"
const fitsText = ({fits, spare_bytes: spare}) =>
  fits ? `fits, ${bytesText(spare)} to spare` : `does not fit, by ${bytesText(-spare)}`;

function showMemory(section, {memory, facts}) {
  // Those that are held throughout lie below.
  const kinds = [...new Set(memory.flatMap(curves => curves.map(curve => curve.kind)))];
  const changing = kind => memory.some(curves => curves.some(curve => curve.kind === kind && curve.changes.length > 1));
  const order = [...kinds.filter(kind => !changing(kind)), ...kinds.filter(changing)];
  const colours = seriesOf(order.toReversed()); // the first colours for those that change
  fillLegend(section.querySelector(".legend"), [...colours]);
  const largest = Math.max(...facts.stages.map(stage => stage.bytes));
  const device = facts.fits?.device_bytes ?? null, isInScale = device !== null && device <= kMostScale * largest;
  const most = isInScale ? Math.max(largest, device) : largest;
  if (device !== null)
    section.querySelector(".note").append(` The solid line is the device's memory, ${bytesText(device)}` +
      `${isInScale ? "" : ", at the upper edge, above the scale"}: the plan ${fitsText(facts.fits)}.`);
  const isDense = memory.length > kManyStages, charts = section.querySelector(".charts");
  charts.classList.toggle("dense", isDense);
  charts.append(...memory.map((curves, stage) => {
    const ordered = order.map(kind => curves.find(curve => curve.kind === kind)).filter(curve => curve);
    const height = isDense ? kDenseHeight : kMemoryHeight, {bytes} = facts.stages[stage];
    return memoryChart(stage, ordered, colours, {most, bytes, device, end: 1e9 * facts.prediction.seconds, height});
  }));
  section.querySelector(".tables").append(tableSection(
    "Memory allocated by a rank, by kind",
    [textColumn("stage"), ...order.map(numberColumn), numberColumn("allocation"), numberColumn("at least")],
    facts.stages.map((stage, number) =>
      [String(number), ...order.map(kind => kind in stage.memory ? bytesText(stage.memory[kind]) : ""), bytesText(stage.bytes),
       bytesText(stage.least_bytes)])));
}

const bytesAt = (curve, time) => curve.changes[Math.max(0, firstIndex(curve.changes, ([ns]) => ns <= time) - 1)][1];

// The moment at which the kinds together hold most; it is one at which something changes.
function peakOf(curves) {
  const deltasOf = list => list.map(([time, bytes], i) => [time, bytes - (i > 0 ? list[i - 1][1] : 0)]);
  const changes = curves.flatMap(curve => deltasOf(curve.changes));
  changes.sort(([a], [b]) => a - b);
  let held = 0, peak = {time: 0, bytes: 0};
  changes.forEach(([time, delta], i) => {
    held += delta;
    if (held > peak.bytes && (i + 1 === changes.length || changes[i + 1][0] > time))
      peak = {time, bytes: held};
  });
  return peak;
}

function memoryChart(stage, curves, colours, limits) {
  const peak = peakOf(curves), atRest = `peak ${bytesText(peak.bytes)} at ${timeText(peak.time)}`;
  const readout = element("output", {}, atRest);
  const canvas = element("canvas", {
    role: "img",
    "aria-label": `stage ${stage}: ${atRest}, of ${bytesText(limits.bytes)}` +
      `${limits.device === null ? "" : ` on a device of ${bytesText(limits.device)}`}: ` +
      curves.map(curve => `${curve.kind} ${bytesText(bytesAt(curve, peak.time))}`).join(", "),
  });
  const figure = element("figure", {}, element("figcaption", {}, `stage ${stage}`, readout), canvas);
  canvas.addEventListener("pointermove", event => {
    const time = event.offsetX / canvas.clientWidth * limits.end;
    readout.value = `${timeText(time)}: ` + curves.filter(curve => bytesAt(curve, time) > 0 && curve.changes.length > 1)
      .map(curve => `${curve.kind} ${bytesText(bytesAt(curve, time))}`).join(", ");
  });
  canvas.addEventListener("pointerleave", () => readout.value = atRest);
  drawOn(figure, width => drawMemory(prepareCanvas(canvas, width, limits.height), width, curves, colours, limits));
  return figure;
}

// Of each column of pixels the most that a kind holds in it: no peak is too short to be seen.
function columnsOf(curve, width, end) {
  const columns = new Float64Array(width);
  curve.changes.forEach(([time, bytes], i) => {
    const until = i + 1 < curve.changes.length ? curve.changes[i + 1][0] : end;
    const last = Math.min(width - 1, Math.floor(until / end * width));
    for (let x = Math.floor(time / end * width); x <= last; ++x)
      columns[x] = Math.max(columns[x], bytes);
  });
  return columns;
}

function drawMemory(context, width, curves, colours, {most, bytes, device, end, height: whole}) {
  const toHeight = size => Math.min(1, size / most) * (whole - 4);
  const base = new Float64Array(width);
  for (const curve of curves) {
    const columns = columnsOf(curve, width, end);
    context.fillStyle = colour(colours.get(curve.kind));
    context.beginPath();
    for (let x = 0; x < width; ++x) {
      const height = toHeight(columns[x]);
      context.rect(x, whole - base[x] - height, 1, height);
      base[x] += height;
    }
    context.fill();
  }
  const drawLine = y => {
    context.beginPath();
    context.moveTo(0, y);
    context.lineTo(width, y);
    context.stroke();
  };
  if (device !== null) {
    const y = device > most ? 1 : whole - toHeight(device);
    context.strokeStyle = context.fillStyle = colour("limit");
    context.lineWidth = 2;
    drawLine(y);
    const text = `device ${bytesText(device)}`;
    context.fillText(text, width - context.measureText(text).width - 2, y + 9);
    context.lineWidth = 1;
  }
  context.strokeStyle = colour("ink");
  context.setLineDash([4, 3]);
  drawLine(whole - toHeight(bytes) + 0.5);
}
