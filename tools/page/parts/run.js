// What a run measured beside its step: its curves and its kernels.

function showRun(training, kernels, {run}) {
  if (!run)
    return;
  const {steps, validation, tokens_per_step: tokens, profile} = run;
  training.hidden = steps.length === 0;
  if (steps.length > 0) {
    training.querySelector(".note").textContent =
      [run.data, stepsText(run), run.lacks, run.end].filter(text => text).join("; ");
    const xs = steps.map(step => step.step), ys = key => steps.map(step => finiteOrNull(step[key]));
    const second = validation.length === 0 ? null :
      {title: "validation", xs: validation.map(([step]) => step), ys: validation.map(([, loss]) => finiteOrNull(loss))};
    const charts = [["loss", "loss", second], ["gradient norm", "grad_norm"], ["learning rate", "lr"]].map(
      ([title, key, other]) => lineChart({title, xs, ys: ys(key), text: numberText, second: other}));
    const rates = ys("seconds").map(seconds => seconds === null ? null : finiteOrNull(tokens / seconds));
    charts.push(lineChart({title: "tokens per second", xs, ys: rates, text: countText}));
    training.querySelector(".charts").append(...charts);
  }
  kernels.hidden = !profile;
  if (profile)
    kernels.querySelector(".tables").append(kernelTable(profile));
}

// A log may have been changed by hand.
const finiteOrNull = value => Number.isFinite(value) ? value : null;

// "steps 20 to 39, after steps 0 to 19 of the log"; not all of a long training are in the curves.
function stepsText({steps, first, done, stride}) {
  const start = steps[0].step, begin = first ?? steps.at(-1).step + 1;
  const own = done > 0 ? [`steps ${rangeText([begin, begin + done])}`] : [];
  const before = start < begin ? [`${done > 0 ? "after " : ""}steps ${rangeText([start, begin])} of the log`] : [];
  const thinned = stride > 1 ? [`one in ${stride} from ${start} on is shown, and the last`] : [];
  return [...own, ...before, ...thinned].join(", ");
}

function kernelTable(profile) {
  const columns = [...["kernel", "kind"].map(textColumn),
                   ...["calls", "time", "share", "waiting", "of the bound"].map(numberColumn)];
  return tableSection("Time of each kernel", columns, profile.rows.map(row => [
    row.kernel, row.kind, countText(row.calls), timeText(1e9 * row.seconds),
    percentText(row.seconds / profile.mean_step_seconds), timeText(1e9 * row.waiting), row.seconds > 0 ? (row.bound_seconds / row.seconds).toFixed(2) : ""]));
}
