// Curves of several runs on the same axes, and their numbers.

const kCompared = [
  {title: "loss", of: "steps", key: "loss", text: numberText},
  {title: "validation loss", of: "validation", key: "loss", text: numberText},
  {title: "gradient norm", of: "steps", key: "grad_norm", text: numberText},
  {title: "tokens per second", of: "steps", key: "tokens_per_second", text: countText},
];
const kAxisTexts = {step: x => String(x), tokens: countText};

// The runs that have the curve, each with its colour and its points: {name, colour, xs, ys}.
function seriesOfRuns(runs, {of, key}, axis) {
  return runs.map((run, index) => ({name: run.name, colour: kSeries[index], xs: run[of][axis], ys: run[of][key]}))
    .filter(({ys}) => ys.some(y => y !== null));
}

function rangeOf(values) {
  let low = Infinity, high = -Infinity;
  for (const list of values)
    for (const value of list)
      if (value !== null)
        low = Math.min(low, value), high = Math.max(high, value);
  if (high > low)
    return [low, high];
  const room = Math.abs(high) / 2 || 1;
  return [low - room, high + room];
}

// "a 3.21, b 3.40": of each run its last value up to x.
function textOfRuns(series, x, text) {
  return series.map(({name, xs, ys}) => {
    const index = firstIndex(xs, other => other <= x) - 1;
    return index < 0 ? null : `${name} ${text(ys[index])}`;
  }).filter(part => part !== null).join(", ");
}

function describeRuns(title, series, text) {
  return `${title}: ` + series.map(({name, ys}) => `${name} ${text(ys[0])} to ${text(ys.at(-1))}`).join("; ");
}

function drawRuns(svg, readout, {series, text, axis}, width) {
  const {height, left, right, top, bottom} = kChart;
  const [low, high] = rangeOf(series.map(({ys}) => ys)), [begin, end] = rangeOf(series.map(({xs}) => xs));
  const toX = x => left + (x - begin) / (end - begin) * (width - left - right);
  const toY = y => height - bottom - (y - low) / (high - low) * (height - top - bottom);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  const ticks = roundTicks(low, high, 4), texts = tickTexts(ticks, text);
  const lines = ticks.map((y, index) => svgElement("g", {},
    svgElement("line", {class: "grid", x1: left, x2: width - right, y1: toY(y), y2: toY(y)}),
    svgElement("text", {x: left - 6, y: toY(y) + 4, "text-anchor": "end"}, texts[index])));
  const places = roundTicks(begin, end, Math.max(2, width / 90)).filter(x => axis !== "step" || Number.isInteger(x));
  const marks = places.map(x =>
    svgElement("text", {x: toX(x), y: height - 6, "text-anchor": "middle"}, kAxisTexts[axis](x)));
  const cross = svgElement("line", {class: "cross", y1: top, y2: height - bottom, visibility: "hidden"});
  const curves = series.map(({colour, xs, ys}) =>
    svgElement("path", {class: "curve", style: `stroke: var(--${colour})`, d: pathOf(xs, ys, toX, toY)}));
  svg.replaceChildren(...lines, ...marks, ...curves, cross);
  svg.onpointermove = event => {
    const x = Math.round(begin + (event.offsetX - left) / (width - left - right) * (end - begin));
    cross.setAttribute("visibility", "visible");
    for (const name of ["x1", "x2"])
      cross.setAttribute(name, event.offsetX);
    readout.value = `${axis} ${kAxisTexts[axis](x)}: ${textOfRuns(series, x, text)}`;
  };
  svg.onpointerleave = () => {
    cross.setAttribute("visibility", "hidden");
    readout.value = "";
  };
}

// A figure, or null where no run has the curve.
function runsChart(runs, compared, axis) {
  const {title, text} = compared, series = seriesOfRuns(runs, compared, axis);
  if (series.length === 0)
    return null;
  const readout = element("output"), svg = svgElement("svg", {role: "img", "aria-label": describeRuns(title, series, text)});
  const figure = element("figure", {}, element("figcaption", {}, title, readout), svg);
  drawOn(figure, width => drawRuns(svg, readout, {series, text, axis}, width));
  return figure;
}

function showCurves(section, runs) {
  const buttons = [...section.querySelectorAll("button")];
  const show = axis => {
    for (const button of buttons)
      button.setAttribute("aria-pressed", String(button.dataset.axis === axis));
    section.querySelector(".charts").replaceChildren(
      ...kCompared.map(compared => runsChart(runs, compared, axis)).filter(figure => figure));
  };
  for (const button of buttons)
    button.onclick = () => show(button.dataset.axis);
  fillLegend(section.querySelector(".legend"), runs.map(({name}, index) => [name, kSeries[index]]));
  show("step");
}

function showComparison({runs, facts, differences, agreement}) {
  const title = runs.length === 1 ? `The run ${runs[0].name}` : `${runs.length} runs`;
  document.title = `${title}, compared by mgc`;
  document.querySelector("h1").textContent = title;
  showCurves(document.getElementById("curves"), runs);
  const numbers = document.getElementById("numbers"), names = runs.map(({name}) => numberColumn(name));
  numbers.querySelector(".note").textContent = agreement;
  numbers.querySelector(".tables").append(tableSection("Runs", [textColumn(""), ...names], facts));
  if (differences.length > 0)
    numbers.querySelector(".tables").append(tableSection("Losses at equal steps: of the first run, and how much more those of the others are",
                                                         [textColumn("step"), ...names], differences));
}

showComparison(JSON.parse(document.getElementById("data").textContent));
