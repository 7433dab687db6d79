# What a bf16 run may be off by, predicted from float64: docs/architecture.md, Precision, has the derivation.
#
# in: a golden model. The same training is done DRAWS times in float64, each with another random rounding (rounded_models.py)
# out: of each loss, norm, gradient and weight the mean, the mean square of the distance from it, and how much that square
# varies; from these the distance that a right run exceeds once in 10^9 comparisons.
import math
import multiprocessing

import numpy

from rounded_models import Training
from rounded_ops import Rounding

DRAWS = 40
MOST_PARTS = 4  # tensor ranks of the layouts: partial sums add rounding, if little
LIMIT = 6.0  # standard deviations: a normal variable is beyond once in 10^9
CUT = 4.0  # errors of weights count up to so many times their usual size


def draw(golden, gradients, seed, **mutation):
    """gradients: nothing, or of bf16 the numbers of data ranks and microbatches."""
    if not gradients:
        return Training(golden, Rounding(seed), parts=MOST_PARTS, **mutation).results()
    return Training(golden, Rounding(seed), Rounding(DRAWS + seed), MOST_PARTS, *gradients, **mutation).results()


def deviations(ratio, freedom, freedom_of_mean):
    """A ratio of two mean squares with these degrees of freedom, as a normal variable (Paulson, 1942)."""
    a, b, root = 2 / (9 * freedom), 2 / (9 * freedom_of_mean), ratio ** (1 / 3)
    return ((1 - b) * root - (1 - a)) / math.sqrt(b * root**2 + a)


def most(freedom, freedom_of_mean):
    """The ratio that is LIMIT deviations off, from above: by bisection."""
    low, high = 1.0, 1e6
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if deviations(middle, freedom, freedom_of_mean) > LIMIT else (middle, high)
    return high


class Quantity:
    """One tensor or number of the run."""

    def __init__(self, name, draws):
        values = numpy.stack([d.ravel() for d in draws]).astype(numpy.float64)
        count = len(values)
        self.shape, self.mean = draws[0].shape, values.mean(0)
        errors = values - self.mean
        # Adam divides by the size of a gradient: where that is noise alone, a weight may go the other way. So many
        # elements as do so in the draws may in a run, but one that happens to be none of theirs must not decide.
        moves = numpy.abs(errors).max(0) > 2.0**-20 * numpy.abs(self.mean)  # has a gradient: others are as good as exact
        usual = math.sqrt(numpy.median(errors[:, moves] ** 2) / 0.4549)  # the median of the square of a normal variable
        self.cut = CUT * usual if name.startswith("weight ") else math.inf
        squares = self.square(errors) * count / (count - 1)
        self.expected = squares.mean()
        freedom = 2 * self.expected**2 / squares.var(ddof=1)  # of a chi-square of that variance (Satterthwaite)
        freedom = min(max(freedom, 1.0), moves.sum())
        self.allowed = math.sqrt(most(freedom, (count - 1) * freedom) * self.expected * (1 + 1 / count))

    def square(self, errors):
        return (numpy.minimum(numpy.abs(errors), self.cut) ** 2).mean(-1)

    def error(self, found):
        """Root mean square of the distance from the mean of the draws."""
        return math.sqrt(self.square(numpy.asarray(found, numpy.float64).ravel() - self.mean))


class Prediction:
    def __init__(self, draws):
        self.quantities = {name: Quantity(name, [d[name] for d in draws]) for name in draws[0]}

    def failures(self, found):
        """(what, found, allowed) of all that is further off than rounding explains. found: as Training.results."""
        failures = [(f"{name} is {'missing' if name in self.quantities else 'not expected'}", 1, 0)
                    for name in sorted(set(found) ^ set(self.quantities))]
        for name, quantity in self.quantities.items():
            if name not in found:
                continue
            if found[name].shape != quantity.shape:
                failures.append((f"shape of {name}: {found[name].shape}", 1, 0))
            elif not (error := quantity.error(found[name])) <= quantity.allowed:  # NaN, too
                failures.append((name, error, quantity.allowed))
        return failures


def predict(cases, jobs):
    """For each of (golden, layout of gradients or nothing): the prediction. layout: (data ranks, microbatches), of which
    rounding depends where gradients are bf16."""
    with multiprocessing.Pool(jobs) as pool:
        draws = {case: [pool.apply_async(draw, (*case, seed)) for seed in range(DRAWS)] for case in cases}
        return {case: Prediction([d.get() for d in pending]) for case, pending in draws.items()}
