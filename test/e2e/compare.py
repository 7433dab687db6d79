# Compares one training run in f32 with the reference values of a golden model. Each function gives a list of
# (what, found, allowed); beyond() picks those that are further off than rounding can explain: found > allowed.
#
# `gap` in expect.json has for each tensor [max, rms of float32 - float64, max, rms of the spread, largest value]:
# the spread is what an honest float32 implementation may differ by (test/golden/README.md). 4 of it, and an absolute
# term for tensors whose spread is 0, is what is allowed.
import numpy

SPREAD_MAX, SPREAD_RMS = 2, 3

# The reference's own norms in float32 and float64 differ by a relative 6e-6 at most, over all models and steps; four
# times that, as for everything else.
NORM_TOLERANCE = 2.4e-5


def rms(values):
    return float(numpy.sqrt(numpy.mean(numpy.square(values, dtype=numpy.float64)))) if values.size else 0.0


def beyond(comparisons):
    return [(what, found, allowed) for what, found, allowed in comparisons if not found <= allowed]  # NaN fails


def excess(comparison):
    """Found over allowed."""
    _, found, allowed = comparison
    if found != found or (found > 0 and allowed <= 0):
        return float("inf")
    return found / allowed if found > 0 else 0.0


def compare_tokens(expect, log):
    """log: one record per step of mgrun --log"""
    comparisons = []
    comparisons.append(("number of steps", abs(len(log) - expect["steps"]), 0))
    for step, record in enumerate(log):
        comparisons.append((f"tokens of step {step}", abs(record["tokens"] - expect["valid_tokens"][step]), 0))
    return comparisons


def compare_steps(expect, log):
    comparisons = compare_tokens(expect, log)
    for step, record in enumerate(log):
        loss = expect["loss_f64"][step]
        comparisons.append((f"loss of step {step}", abs(record["loss"] - loss), 4 * expect["loss_spread"][step] + 1e-6))
        for name, values in expect.get("terms_f64", {}).items():
            allowed = 4 * expect["terms_spread"][name][step] + 1e-6
            comparisons.append((f"{name} of step {step}", abs(record.get(name, float("nan")) - values[step]), allowed))
        norm = expect["grad_norm_f64"][step]
        comparisons.append((f"grad_norm of step {step}", abs(record["grad_norm"] - norm), NORM_TOLERANCE * norm))
    return comparisons


def names_and_shapes(found, wanted, what):
    comparisons = []
    for name in sorted(set(found) ^ set(wanted)):
        comparisons.append((f"{what} {name} is {'missing' if name in wanted else 'not expected'}", 1, 0))
    for name in sorted(set(found) & set(wanted)):
        if found[name].shape != wanted[name].shape:
            comparisons.append((f"shape of {what} {name}: {found[name].shape}", 1, 0))
    return comparisons


def compare_bits(what, wanted, found):
    comparisons = names_and_shapes(found, wanted, what)
    for name in wanted if not comparisons else ():
        if found[name].tobytes() != wanted[name].tobytes():
            comparisons.append((f"{what} {name}: other bits", 1, 0))
    return comparisons


def compare_gradients(expect, wanted, found):
    """Gradients of step 0 before clipping, by tensor name."""
    comparisons = names_and_shapes(found, wanted, "gradient")
    for name in wanted if not comparisons else ():
        error = found[name].astype(numpy.float64) - wanted[name]
        gap = expect["gap"][f"grad.{name}"]
        comparisons.append((f"gradient {name}", float(numpy.abs(error).max()), 4 * gap[SPREAD_MAX] + 1e-8))
        comparisons.append((f"gradient {name} (rms)", rms(error), 4 * gap[SPREAD_RMS] + 1e-8))
    return comparisons


def compare_untrained(expect, start, routes, gradients, weights):
    """The untrained parameters are biases of routers. Instead of gradients they have the number of tokens that chose
    each expert, equal to the reference's to the last token; they keep the bits that they began with. In a model without routers it is a
    buffer of zeros (BART's final_logits_bias), which mgrun neither reads nor writes."""
    names, comparisons = expect["untrained"] if routes else [], []
    for name in names:
        chosen = routes[int(name.split(".")[2])]
        load = numpy.bincount(chosen.ravel(), minlength=start[name].size)
        if name not in gradients or (gradients[name] != load).any():
            comparisons.append((f"gradient {name} is not the load {load.tolist()}", 1, 0))
    kept = {name: weights[name] for name in expect["untrained"] if name in weights}
    return comparisons + compare_bits("weight not trained", {name: start[name] for name in names}, kept)


def compare_frozen(expect, start, gradients, weights):
    """Frozen tensors have no gradient, and keep the bits that they began with."""
    names = expect.get("frozen", [])
    comparisons = [(f"gradient {name} of a frozen tensor", 1, 0) for name in names if name in gradients]
    return comparisons + compare_bits("frozen weight", {name: start[name] for name in names},
                                      {name: weights[name] for name in names if name in weights})


def compare_loads(start, routes, found):
    """Compares the least, mean and largest load of each router in step 0 with the reference's choices, where it has them; they
    are equal to the last token."""
    layer_of = lambda router: int(router.split(".")[2])
    comparisons = []
    if not found or (routes and sorted(routes) != sorted(map(layer_of, found))):
        comparisons.append((f"loads of {sorted(found)}, expected layers {sorted(routes)}", 1, 0))
    for router in found if routes and not comparisons else ():
        load = numpy.bincount(routes[layer_of(router)].ravel(), minlength=len(start[f"{router}.weight"]))
        if found[router] != {"min": load.min(), "mean": load.mean(), "max": load.max()}:
            comparisons.append((f"load of {router}: {found[router]}, expected {load.tolist()}", 1, 0))
    return comparisons


def conditioning(expect, name, gradient):
    """How far each element of a final weight may be off because Adam divides by the size of its gradient.

    An update is lr * m / sqrt(v). If gradients are known to within d, m is known to within d, and sqrt(v) is at least
    about half the first gradient g (v keeps 0.95^3 of its 0.05 g^2 over 4 steps, bias-corrected by 1 - 0.95^4 = 0.185:
    0.23 g^2), so m / sqrt(v) is known to within about 4 d / |g|, and never differs by more than 2. Summed over the
    steps this is negligible except where the gradient is nearly zero: key biases without rotary positions, whose exact
    gradient is zero, and single elements elsewhere. An exact zero, a token that did not occur, has no rounding.
    An optimizer without eps does not divide.
    """
    if "eps" not in expect["optimizer"]:
        return numpy.zeros(gradient.shape)
    gap = expect["gap"][f"grad.{name}"]
    noise = 4 * gap[SPREAD_MAX] + 1e-8
    size = numpy.abs(gradient.astype(numpy.float64))
    with numpy.errstate(divide="ignore"):
        ratio = numpy.minimum(2.0, 4 * noise / size)
    return sum(expect["lr"]) * numpy.where(size == 0, 0.0, ratio)


def compare_weights(expect, wanted, gradients, found):
    """Weights after the last step. Every element within its own bound; the rms, which shows a forgotten decay in
    tensors of any size, over the elements that rounding moves by less than 1e-5."""
    comparisons = names_and_shapes(found, wanted, "weight")
    for name in wanted if not comparisons else ():
        error = numpy.abs(found[name].astype(numpy.float64) - wanted[name])
        loose = conditioning(expect, name, gradients[name])
        gap = expect["gap"][f"final.{name}"]
        bound = 4 * gap[SPREAD_MAX] + 1e-6 + loose
        worst = numpy.unravel_index(numpy.argmax(error / bound), error.shape)
        comparisons.append((f"weight {name}{[int(i) for i in worst]}", float(error[worst]), float(bound[worst])))
        comparisons.append((f"weight {name} (rms)", rms(error[loose < 1e-5]), 4 * gap[SPREAD_RMS] + 1e-6))
    return comparisons
