// Curves, over the steps of a run or over anything else, and bars.

const kChart = {height: 170, left: 52, right: 10, top: 8, bottom: 22};

// curve: {title, xs, ys, text}; null of ys: not finite, a gap. Where xs are no steps of a run also `at`, the text of one of them.
// second: null, or {title, xs, ys} of another curve on the same axes.
function lineChart(curve) {
  curve = {at: x => `step ${x}`, second: null, ...curve, areSteps: !curve.at};
  const {second, text} = curve;
  curve.rest = [`last ${text(curve.ys.at(-1))}`, ...(second ? [`${second.title} ${text(second.ys.at(-1))}`] : [])].join(", ");
  const readout = element("output", {}, curve.rest);
  const label = [curve, ...(second ? [{...curve, ...second}] : [])].map(describeCurve).join("; ");
  const svg = svgElement("svg", {role: "img", "aria-label": label});
  const key = second ? [element("span", {class: "key"}, swatch("series-2"), second.title)] : [];
  const figure = element("figure", {}, element("figcaption", {}, curve.title, ...key, readout), svg);
  drawOn(figure, width => drawCurve(svg, curve, readout, width));
  return figure;
}

function describeCurve({title, xs, ys, text, at}) {
  const finite = ys.filter(y => y !== null);
  return finite.length === 0 ? `${title}: no finite value` :
    `${title}: ${text(ys[0])} at ${at(xs[0])}, ${text(ys.at(-1))} at ${at(xs.at(-1))}; ` +
    `least ${text(Math.min(...finite))}, most ${text(Math.max(...finite))}`;
}

// "step 20: 3.21, validation 3.40 at step 19": of a second curve its last value up to there.
function textAt({xs, ys, text, at, second}, index) {
  const own = `${at(xs[index])}: ${text(ys[index])}`;
  const other = second ? firstIndex(second.xs, x => x <= xs[index]) - 1 : -1;
  return other < 0 ? own : `${own}, ${second.title} ${text(second.ys[other])} at ${at(second.xs[other])}`;
}

function drawCurve(svg, curve, readout, width) {
  const {xs, ys, text, at: atText, areSteps, second, rest} = curve, {height, left, right, top, bottom} = kChart;
  const finite = [...ys, ...(second?.ys ?? [])].filter(y => y !== null);
  let low = Math.min(...finite), high = Math.max(...finite);
  if (!(high > low)) { // one value, or none
    const room = Math.abs(high) / 2 || 1;
    [low, high] = finite.length ? [high - room, high + room] : [0, 1];
  }
  const begin = Math.min(xs[0], second?.xs[0] ?? xs[0]), end = Math.max(xs.at(-1), second?.xs.at(-1) ?? xs.at(-1));
  const span = end - begin || 1;
  const toX = x => left + (x - begin) / span * (width - left - right);
  const toY = y => height - bottom - (y - low) / (high - low) * (height - top - bottom);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  const ticks = roundTicks(low, high, 4), texts = tickTexts(ticks, text);
  const lines = ticks.map((y, index) => svgElement("g", {},
    svgElement("line", {class: "grid", x1: left, x2: width - right, y1: toY(y), y2: toY(y)}),
    svgElement("text", {x: left - 6, y: toY(y) + 4, "text-anchor": "end"}, texts[index])));
  const places = roundTicks(begin, end, Math.max(2, width / (areSteps ? 70 : 140)));
  const steps = (areSteps ? places.filter(Number.isInteger) : places).map(x =>
    svgElement("text", {x: toX(x), y: height - 6, "text-anchor": "middle"}, areSteps ? String(x) : atText(x)));
  const cross = svgElement("line", {class: "cross", y1: top, y2: height - bottom, visibility: "hidden"});
  const curves = [svgElement("path", {class: "curve", d: pathOf(xs, ys, toX, toY)})];
  if (second)
    curves.push(svgElement("path", {class: "curve second", d: pathOf(second.xs, second.ys, toX, toY)}));
  svg.replaceChildren(...lines, ...steps, ...curves, cross);
  svg.onpointermove = event => {
    const at = begin + (event.offsetX - left) / (width - left - right) * span;
    const index = Math.min(xs.length - 1, firstIndex(xs, x => x < at));
    cross.setAttribute("visibility", "visible");
    cross.setAttribute("x1", toX(xs[index]));
    cross.setAttribute("x2", toX(xs[index]));
    readout.value = textAt(curve, index);
  };
  svg.onpointerleave = () => {
    cross.setAttribute("visibility", "hidden");
    readout.value = rest;
  };
}

// Ticks too close for the curve's own texts have as many digits as tell them apart.
function tickTexts(ticks, text) {
  let texts = ticks.map(text);
  for (let digits = 4; new Set(texts).size < texts.length && digits < 17; ++digits)
    texts = ticks.map(tick => String(Number(tick.toPrecision(digits))));
  return texts;
}

// A point between two gaps is a dot: a line of no length with round ends.
function pathOf(xs, ys, toX, toY) {
  let path = "", isOpen = false;
  for (let i = 0; i < xs.length; ++i) {
    if (ys[i] !== null)
      path += `${isOpen ? "L" : "M"}${toX(xs[i]).toFixed(1)} ${toY(ys[i]).toFixed(1)}`;
    if (ys[i] !== null && !isOpen && (i + 1 === xs.length || ys[i + 1] === null))
      path += "h1";
    isOpen = ys[i] !== null;
  }
  return path;
}

const kLongestBar = 75; // percent of the width, which leaves room for the text behind it

// rows: [{name, parts: [{text, value, name of its colour}], text}]; one scale for all rows.
function fillBars(container, rows) {
  const total = row => row.parts.reduce((sum, part) => sum + part.value, 0);
  const most = Math.max(...rows.map(total)) || 1;
  const percent = (value, whole) => `${(value / whole * 100).toFixed(3)}%`;
  container.replaceChildren(...rows.flatMap(row => {
    const parts = row.parts.filter(part => part.value > 0).map(part => element("i", {
      title: part.text, style: `width: ${percent(part.value, total(row))}; background: var(--${part.colour})`}));
    const bar = element("span", {style: `width: ${percent(total(row) * kLongestBar / 100, most)}`}, ...parts);
    return [element("span", {}, row.name), element("div", {class: "bar"}, bar, row.text)];
  }));
}
