// What a step's time goes to: predicted, and where a run was measured, that one below it. The parts of the measured steps add up
// to their mean; the median, which a disturbed step does not move, stands beside it.

const stepCount = ({steps}) => steps === 1 ? "one step" : `${steps} steps`;

// "median 1.20 s, mean 1.50 s"
const measuredText = profile =>
  `median ${timeText(1e9 * profile.step_seconds)}, mean ${timeText(1e9 * profile.mean_step_seconds)}`;

function showTime(section, {facts, run}) {
  const {prediction} = facts, measured = run?.profile;
  const taking = parts => Object.entries(parts).filter(([, seconds]) => seconds > 0)
    .map(([name, seconds]) => [words(name), seconds]);
  const colours = seriesOf(...[prediction.parts, measured?.parts ?? {}].map(parts => taking(parts).map(([name]) => name)));
  const partsOf = parts => taking(parts).map(([name, seconds]) => ({name, seconds, colour: colours.get(name)}));
  const predicted = partsOf(prediction.parts), rows = [barRow("predicted", predicted, prediction.seconds)];
  if (measured)
    rows.push(barRow("measured, mean", partsOf(measured.parts), measured.mean_step_seconds));
  fillBars(section.querySelector(".bars"), rows);
  section.querySelector(".tables").append(partTable(`Parts of the step predicted on ${prediction.machine}`, predicted,
                                                    prediction.seconds));
  if (measured)
    section.querySelector(".tables").append(
      partTable(`Parts of the measured step, mean of ${stepCount(measured)}${measured.ranks > 1 ? ` of ${measured.ranks} ranks` : ""}`, partsOf(measured.parts),
                measured.mean_step_seconds));
}

function barRow(name, parts, seconds) {
  return {
    name, text: timeText(1e9 * seconds),
    parts: parts.map(part => ({
      value: part.seconds, colour: part.colour, text: `${part.name}: ${timeText(1e9 * part.seconds)}`})),
  };
}

// With the colours of the bar's parts.
function partTable(caption, parts, whole) {
  const table = tableSection(caption, [textColumn("part"), numberColumn("time"), numberColumn("share")], parts.map(part =>
    [part.name, timeText(1e9 * part.seconds), percentText(part.seconds / whole)]));
  table.querySelectorAll("tbody th").forEach((cell, index) => {
    const mark = swatch(parts[index].colour);
    mark.classList.add("mark");
    cell.prepend(mark);
  });
  return table;
}
