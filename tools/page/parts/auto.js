// The answers of a search of layouts: what mgc compile --auto --json prints, as tables and a chart.

const stepText = seconds => timeText(1e9 * seconds);
const slowerText = (seconds, best) => `${seconds >= best ? "+" : "−"}${Math.abs(100 * (seconds / best - 1)).toFixed(1)} %`;

// Columns of a layout: of each its head, whether it is a number, and its text.
function layoutColumns({memory}) {
  return [
    ["step", true, layout => stepText(layout.seconds)],
    ["tokens/s", true, layout => layout.tokens_per_second.toFixed(0)],
    ["MFU", true, layout => percentText(layout.mfu)],
    ["memory", true, layout => `${bytesText(layout.bytes)} (${(100 * layout.bytes / memory).toFixed(0)} %)`],
    ["days", true, layout => layout.days?.toFixed(2)],
    ["device-hours", true, layout => layout.device_hours?.toFixed(1)],
    ["layout", false, layout => layout.layout],
    ["command", false, layout => layout.command],
  ];
}

// entries: [first cell, layout]; columns without a text are left out.
function layoutTable(caption, head, entries, report) {
  const columns = layoutColumns(report).filter(([, , text]) => entries.some(([, layout]) => text(layout) !== undefined));
  const heads = columns.map(([name, isNumber]) => ({text: name, isNumber}));
  return tableSection(caption, [numberColumn(head), ...heads],
                      entries.map(([first, layout]) => [first, ...columns.map(([, , text]) => text(layout))]));
}

const numbered = layouts => layouts.map((layout, index) => [String(index + 1), layout]);

function differencesText(differences, best) {
  const sorted = Object.entries(differences).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  return sorted.map(([part, seconds]) => `${part} ${slowerText(best + seconds, best)}`).join(", ");
}

// rows: [first cell, layout or what has a refusal].
function differencesTable(caption, head, rows, best) {
  const columns = [textColumn(head), numberColumn("step"), numberColumn("slower"), numberColumn("memory"), textColumn("layout"),
                   textColumn("parts that differ")];
  return tableSection(caption, columns, rows.map(([name, one]) => one.refusal !== undefined
    ? [name, "none", "", "", one.refusal, ""]
    : [name, stepText(one.seconds), slowerText(one.seconds, best), bytesText(one.bytes), one.layout,
       differencesText(one.differences, best)]));
}

function show(id, ...nodes) {
  const section = document.getElementById(id);
  section.hidden = false;
  section.querySelector(".tables").replaceChildren(...nodes);
  return section;
}

function showLayouts(report) {
  const {sizes} = report, found = sizes.filter(size => size.layouts.length > 0);
  const tables = sizes.length > 1 && found.length > 0
    ? [layoutTable("The best layout of each number of devices", "devices", found.map(size => [String(size.devices), size.layouts[0]]), report)]
    : found.map(size => layoutTable("The fastest first", "", numbered(size.layouts), report));
  const refusals = sizes.filter(size => size.refusal !== undefined).map(size => `${size.devices} devices: ${size.refusal}`);
  show("layouts", ...tables).querySelector(".note").textContent = refusals.join("; ");
}

function showPareto({pareto, too_little_memory: tooLittle}, report) {
  const curve = [...pareto].reverse();
  const section = show("pareto", layoutTable("The fastest within less and less memory", "", numbered(pareto), report));
  section.querySelector(".note").textContent =
    `Each row takes at least a tenth less memory than the one before; none fits into ${bytesText(tooLittle)}.`;
  section.querySelector(".charts").replaceChildren(lineChart({
    title: "step by memory", xs: curve.map(({bytes}) => bytes), ys: curve.map(({seconds}) => seconds), text: stepText, at: bytesText}));
}

function showSensitivity({layouts, sensitivity}) {
  const columns = [textColumn("machine"), ...layouts.map((_, index) => numberColumn(String(index + 1))), textColumn("order")];
  const rows = sensitivity.map(({machine, order, seconds}) => [
    machine, ...layouts.map((_, index) => index < seconds.length ? stepText(seconds[index]) : ""),
    order.every((number, index) => number === index + 1) ? "does not change" : order.join(", ")]);
  show("sensitivity", tableSection("Steps of the layouts above", columns, rows));
}

function showCounts({sizes}) {
  const names = Object.keys(sizes[0].counts).filter(name => name !== "seconds");
  show("counts", tableSection("Layouts, by number of devices", [textColumn("devices"), ...names.map(name => numberColumn(words(name))), numberColumn("time")],
    sizes.map(({devices, counts}) => [String(devices), ...names.map(name => String(counts[name])), stepText(counts.seconds)])));
}

function loadText({expert_load: load}) {
  if (load === undefined)
    return "";
  return load === "even" ? ", experts loaded evenly" : `, the fullest rank with ${load} times the mean of experts' rows`;
}

function showSearch(report) {
  const {model, machine, sizes} = report, devices = sizes.map(size => size.devices).join(", ");
  const title = `${model} on ${devices} ${devices === "1" ? "device" : "devices"} of ${machine}`;
  document.title = `${title}, layouts searched by mgc`;
  document.querySelector("h1").textContent = title;
  document.querySelector("header .note").textContent = `${bytesText(report.memory)} a rank; ${report.global_batch_size} ` +
    `${report.global_batch_size === 1 ? "sequence" : "sequences"} of ${report.sequence_length} tokens a step, ${report.dtype}` +
    loadText(report);
  showLayouts(report);
  const [size] = sizes, best = size.layouts[0]?.seconds;
  if (size.pareto)
    showPareto(size, report);
  if (size.explained)
    show("explained", differencesTable("By options", "options", size.explained.map(one => [one.options, one]), best));
  if (size.why_not)
    show("why", differencesTable("By value", "value", size.why_not.map(one => [`${one.flag} ${one.value}`, one]), best));
  if (size.sensitivity)
    showSensitivity(size);
  showCounts(report);
  showSections();
}

showSearch(JSON.parse(document.getElementById("data").textContent));
