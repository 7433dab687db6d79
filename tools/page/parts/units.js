// Texts of numbers, elements, colours: what all other scripts use.

function scaled(value, step, units, digits = 2) {
  let unit = 0;
  for (; value >= step && unit + 1 < units.length; ++unit)
    value /= step;
  return `${unit === 0 && Number.isInteger(value) ? value : value.toFixed(digits)} ${units[unit]}`.trim();
}

const bytesText = bytes => scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
const countText = count => scaled(count, 1000, ["", "k", "M", "G", "T", "P", "E"]);
const percentText = fraction => `${(100 * fraction).toFixed(1)} %`;

// "1.23 s", "4.56 ms"; a rank's clock counts nanoseconds.
function timeText(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]])
    if (Math.abs(ns) >= size)
      return `${(ns / size).toPrecision(3)} ${unit}`;
  return `${Math.round(ns)} ns`;
}

// Of a curve: 4 digits, without an exponent where that is readable.
function numberText(value) {
  if (value === null || !Number.isFinite(value))
    return "not finite";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

// "0 to 3"
const rangeText = ([begin, end]) => end - begin === 1 ? `${begin}` : `${begin} to ${end - 1}`;

const words = name => name.replaceAll("_", " ");

// element("td", {class: "number"}, "12"); children are elements or texts, never markup.
function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svgElement(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes))
    node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// The value of --NAME of page.css, of the scheme that is shown.
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const kSeries = Array.from({length: 11}, (_, index) => `series-${index}`); // colours of page.css

// The colour of each name: a name of several lists has one, and those of a list differ as long as there are colours.
function seriesOf(...lists) {
  const colours = new Map();
  for (const names of lists) {
    const free = kSeries.filter(name => !names.some(other => colours.get(other) === name));
    for (const name of names)
      if (!colours.has(name))
        colours.set(name, free.shift() ?? kSeries.at(-1));
  }
  return colours;
}

function swatch(name) {
  return element("span", {class: "swatch", style: `background: var(--${name})`});
}

function fillLegend(list, entries) {
  list.replaceChildren(...entries.map(([text, name]) => element("li", {}, swatch(name), text)));
}

// Calls draw(width) soon, when the width of the node changes, and when the colours do. In a frame of its own, as what is drawn
// may change the sizes of other nodes.
function drawOn(node, draw) {
  const redraw = () => requestAnimationFrame(() => node.clientWidth > 0 && draw(node.clientWidth));
  new ResizeObserver(redraw).observe(node);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
}

// A canvas of that many CSS pixels, as sharp as the screen. Returns its context, in CSS pixels, empty.
function prepareCanvas(canvas, width, height) {
  const density = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  const context = canvas.getContext("2d");
  context.scale(density, density);
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  return context;
}

// The first index whose item is not before; items are sorted so that those before come first.
function firstIndex(items, isBefore) {
  let low = 0, high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(items[middle]))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// About `count` round numbers from `low` to `high`.
function roundTicks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(size => size >= rough);
  const ticks = [];
  for (let index = Math.ceil(low / step); index * step <= high + step * 1e-9; ++index)
    ticks.push(index * step);
  return ticks;
}
