// What a run measured beside its step: its curves and its kernels.

function showRun(training, kernels, {run}) {
  if (!run)
    return;
  const {steps, tokens_per_step: tokens, profile} = run;
  training.hidden = steps.length === 0;
  if (steps.length > 0) {
    training.querySelector(".note").textContent = [run.data, stepsText(run), run.end].filter(text => text).join("; ");
    const xs = steps.map(step => step.step), ys = key => steps.map(step => step[key]);
    const charts = [["loss", "loss"], ["gradient norm", "grad_norm"], ["learning rate", "lr"]].map(([title, key]) =>
      lineChart({title, xs, ys: ys(key), text: numberText}));
    const rates = ys("seconds").map(seconds => tokens / seconds);
    charts.push(lineChart({title: "tokens per second", xs, ys: rates, text: countText}));
    training.querySelector(".charts").append(...charts);
  }
  kernels.hidden = !profile;
  if (profile)
    kernels.querySelector(".tables").append(kernelTable(profile));
}

// "steps 20 to 39"; not all of a long run are in the curves.
function stepsText({steps, done, stride}) {
  const first = steps[0].step;
  return `steps ${rangeText([first, first + done])}${stride > 1 ? `, each ${stride}th from ${first} on is shown` : ""}`;
}

function kernelTable(profile) {
  const columns = [...["kernel", "kind"].map(textColumn),
                   ...["calls", "time", "share", "waiting", "of the bound"].map(numberColumn)];
  return tableSection("Time of each kernel", columns, profile.rows.map(row => [
    row.kernel, row.kind, countText(row.calls), timeText(1e9 * row.seconds),
    percentText(row.seconds / profile.mean_step_seconds), timeText(1e9 * row.waiting), row.seconds > 0 ? (row.bound_seconds / row.seconds).toFixed(2) : ""]));
}
