// What --memory chose among: time against memory, and what the policies of a block keep and take.

function showBudget(section, {facts: {budget}}) {
  section.hidden = !budget;
  if (!budget)
    return;
  section.querySelector(".note").textContent =
    `Of a rank's memory, at most ${bytesText(budget.bytes)}: the least time of all microbatches of a step, as predicted ` +
    `when the plan was compiled; this plan takes ${timeText(1e9 * budget.seconds)}` +
    (budget.least_seconds === null ? ". Not all choices were compared: others may take less time." :
      budget.least_seconds < 0.999 * budget.seconds ? `, and none takes less than ${timeText(1e9 * budget.least_seconds)}.` : ".");
  const {curve, policies} = budget;
  section.querySelector(".charts").append(lineChart({
    title: "time of a step against memory of a rank", xs: curve.map(point => point.bytes),
    ys: curve.map(point => 1e9 * point.seconds), text: timeText, at: bytesText}));
  section.querySelector(".tables").append(
    tableSection("Policies of recomputation, for a microbatch",
                 [...["block", "policy"].map(textColumn),
                  ...["kept", "while it runs", "time", "saved", "added"].map(numberColumn)],
                 policies.map(policy => [
                   policy.block, policy.policy || "standard", bytesText(policy.kept + policy.split), bytesText(policy.frame),
                   timeText(1e9 * policy.seconds), bytesText(policy.bytes_saved), timeText(1e9 * policy.seconds_added)])),
    tableSection("Time against memory", ["memory", "time"].map(numberColumn),
                 curve.map(point => [bytesText(point.bytes), timeText(1e9 * point.seconds)])));
}
