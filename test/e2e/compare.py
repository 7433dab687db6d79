# Compares one training run with the reference values of a golden model. Each function gives a list of
# (what, found, allowed) for all that is further off than rounding can explain: found > allowed.
#
# `gap` in expect.json has for each tensor [max, rms of float32 - float64, max, rms of the spread, largest value]:
# the spread is what an honest float32 implementation may differ by (test/golden/README.md). 4 of it, and an absolute
# term for tensors whose spread is 0, is what is allowed.
import numpy

GAP_MAX, GAP_RMS, SPREAD_MAX, SPREAD_RMS = range(4)

# The reference's own norms in float32 and float64 differ by a relative 6e-6 at most, over all models and steps; four
# times that, as for everything else.
NORM_TOLERANCE = 2.4e-5


# Unit roundoffs. To first order the error of a run is a sum of terms that are each proportional to that of the type it
# rounds to, so the error of a bf16 run is that of the float32 run, whose gap to float64 is known, times their ratio. Sums,
# masters and gradients in f32 make it smaller. 4 of it are allowed, as of the spread of float32.
ROUNDOFF = {"f32": 2.0**-24, "bf16": 2.0**-8}


class Float32:
    """What a float32 run may be off by."""

    def __init__(self, expect):
        self.expect = expect

    def loss(self, step):
        return 4 * self.expect["loss_spread"][step] + 1e-6

    def norm(self, step):
        return NORM_TOLERANCE * self.expect["grad_norm_f64"][step]

    def gradient(self, name):
        """Of its largest error, of the rms"""
        gap = self.expect["gap"][f"grad.{name}"]
        return 4 * gap[SPREAD_MAX] + 1e-8, 4 * gap[SPREAD_RMS] + 1e-8

    def weight(self, name):
        gap = self.expect["gap"][f"final.{name}"]
        return 4 * gap[SPREAD_MAX] + 1e-6, 4 * gap[SPREAD_RMS] + 1e-6

    def weight_rms(self, name, error, loose):
        """Found, and allowed: over the elements that rounding moves by less than 1e-5."""
        return rms(error[loose < 1e-5]), self.weight(name)[1]


class Bfloat16(Float32):
    """What a bf16 run may be off by: the same from the gap of float32 to float64, times the ratio of the roundoffs."""

    ratio = ROUNDOFF["bf16"] / ROUNDOFF["f32"]

    def number(self):
        """Relative: the worst of losses and norms over the steps. The gap of a single one may be nearly zero by luck."""
        pairs = [pair for key in ("loss", "grad_norm") for pair in zip(self.expect[key], self.expect[f"{key}_f64"])]
        return 4 * self.ratio * max(abs(a - b) / abs(b) for a, b in pairs)

    def loss(self, step):
        return self.number() * self.expect["loss_f64"][step]

    def norm(self, step):
        return self.number() * self.expect["grad_norm_f64"][step]

    def gradient(self, name):
        gap = self.expect["gap"][f"grad.{name}"]
        return 4 * self.ratio * gap[GAP_MAX], 4 * self.ratio * gap[GAP_RMS]

    def weight(self, name):
        """An update is at most about the learning rate: two runs end at most twice their sum apart."""
        gap = self.expect["gap"][f"final.{name}"]
        most = 2 * sum(self.expect["lr"])
        return tuple(min(most, 4 * self.ratio * gap[i]) for i in (GAP_MAX, GAP_RMS))

    def weight_rms(self, name, error, loose):
        """Over all elements: rounding moves none by so little that it could be told from the others."""
        return rms(error), self.weight(name)[1] + rms(loose)


ALLOWED = {"f32": Float32, "bf16": Bfloat16}


def rms(values):
    return float(numpy.sqrt(numpy.mean(numpy.square(values, dtype=numpy.float64)))) if values.size else 0.0


def check(failures, what, found, allowed):
    if not found <= allowed:  # NaN fails
        failures.append((what, found, allowed))


def compare_steps(expect, log, dtype="f32"):
    """log: one record per step of mgrun --log"""
    failures, allowed = [], ALLOWED[dtype](expect)
    check(failures, "number of steps", abs(len(log) - expect["steps"]), 0)
    for step, record in enumerate(log):
        check(failures, f"tokens of step {step}", abs(record["tokens"] - expect["valid_tokens"][step]), 0)
        loss = expect["loss_f64"][step]
        check(failures, f"loss of step {step}", abs(record["loss"] - loss), allowed.loss(step))
        norm = expect["grad_norm_f64"][step]
        check(failures, f"grad_norm of step {step}", abs(record["grad_norm"] - norm), allowed.norm(step))
    return failures


def names_and_shapes(found, wanted, what):
    failures = []
    for name in sorted(set(found) ^ set(wanted)):
        failures.append((f"{what} {name} is {'missing' if name in wanted else 'not expected'}", 1, 0))
    for name in sorted(set(found) & set(wanted)):
        if found[name].shape != wanted[name].shape:
            failures.append((f"shape of {what} {name}: {found[name].shape}", 1, 0))
    return failures


def compare_bits(what, wanted, found):
    failures = names_and_shapes(found, wanted, what)
    for name in wanted if not failures else ():
        if found[name].tobytes() != wanted[name].tobytes():
            failures.append((f"{what} {name}: other bits", 1, 0))
    return failures


def compare_gradients(expect, wanted, found, dtype="f32"):
    """Gradients of step 0 before clipping, by tensor name."""
    allowed = ALLOWED[dtype](expect)
    failures = names_and_shapes(found, wanted, "gradient")
    for name in wanted if not failures else ():
        error = found[name].astype(numpy.float64) - wanted[name]
        most, most_rms = allowed.gradient(name)
        check(failures, f"gradient {name}", float(numpy.abs(error).max()), most)
        check(failures, f"gradient {name} (rms)", rms(error), most_rms)
    return failures


def conditioning(expect, name, gradient, dtype="f32"):
    """How far each element of a final weight may be off because Adam divides by the size of its gradient.

    An update is lr * m / sqrt(v). If gradients are known to within d, m is known to within d, and sqrt(v) is at least
    about half the first gradient g (v keeps 0.95^3 of its 0.05 g^2 over 4 steps, bias-corrected by 1 - 0.95^4 = 0.185:
    0.23 g^2), so m / sqrt(v) is known to within about 4 d / |g|, and never differs by more than 2. Summed over the
    steps this is negligible except where the gradient is nearly zero: key biases without rotary positions, whose exact
    gradient is zero, and single elements elsewhere. An exact zero, a token that did not occur, has no rounding.
    """
    noise, _ = ALLOWED[dtype](expect).gradient(name)
    size = numpy.abs(gradient.astype(numpy.float64))
    with numpy.errstate(divide="ignore"):
        ratio = numpy.minimum(2.0, 4 * noise / size)
    return sum(expect["lr"]) * numpy.where(size == 0, 0.0, ratio)


def compare_weights(expect, wanted, gradients, found, dtype="f32"):
    """Weights after the last step. Every element within its own bound; the rms, which shows a forgotten decay in
    tensors of any size, over the elements that rounding moves by less than 1e-5."""
    failures, allowed = names_and_shapes(found, wanted, "weight"), ALLOWED[dtype](expect)
    for name in wanted if not failures else ():
        error = numpy.abs(found[name].astype(numpy.float64) - wanted[name])
        loose = conditioning(expect, name, gradients[name], dtype)
        bound = allowed.weight(name)[0] + loose
        worst = numpy.unravel_index(numpy.argmax(error - bound), error.shape)
        check(failures, f"weight {name}{[int(i) for i in worst]}", float(error[worst]), float(bound[worst]))
        check(failures, f"weight {name} (rms)", *allowed.weight_rms(name, error, loose))
    return failures
