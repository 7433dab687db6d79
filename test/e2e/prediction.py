# Predicts the error of a bf16 run from float64: docs/precision.md has the derivation.
#
# in: a golden model. The same training is done DRAWS times in float64, each with another random rounding (rounded_models.py)
# out: of each loss, norm, gradient and weight the mean, the mean square of the distance from it, and how much that square
# varies; from these the distance that a right run exceeds once in 10^8 comparisons or so. The same of a tensor's largest distance, and
# of the number of elements that are further off than is usual for them: a fault in few elements is little in the mean.
import collections
import math
import multiprocessing

import numpy

from rounded_models import Training
from rounded_ops import Rounding

DRAWS = 40
MOST_PARTS = 4  # tensor ranks of the layouts: partial sums add rounding, if little
LIMIT = 6.0  # standard deviations: a normal variable is beyond once in 10^9
RARE = 1e-9
UNSURE = 1 + math.sqrt(2 / (DRAWS - 1))  # a variance estimated from the draws is taken as larger by its standard error
CUT = 4.0  # errors of weights count up to so many times their usual size; elements beyond it are counted


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


def cluster_size(counts):
    """Events come in clusters as large as variance over mean says, of all tensors of a kind together: in its own few draws a tensor
    may show none of those that it can have. counts [tensors, draws]."""
    mean = counts.mean(1).sum()
    return max(1.0, counts.var(1, ddof=1).sum() / mean) if mean else 1.0


def most_counted(counts, least_cluster=1.0):
    """For numbers of events: the bound that one more draw exceeds with the probability RARE. Its distribution is
    negative binomial, as a Poisson variable's next is after these if all rates are as likely (Jeffreys)."""
    draws, total = len(counts), counts.sum()
    cluster = max(least_cluster, cluster_size(counts[None]))
    shape, number = total / cluster + 0.5, 0
    term = (draws / (draws + 1)) ** shape
    left = 1 - term
    while left > RARE:
        number += 1
        term *= (shape + number - 1) / number / (draws + 1)
        left -= term
    return math.ceil(number * cluster)


def most_of_largest(largest):
    """For the largest of many: the bound that one more draw exceeds with the probability RARE, its logarithm as a Gumbel variable."""
    if not largest.any():
        return 0.0
    logs = numpy.log(largest[largest > 0])
    scale = logs.std(ddof=1) * math.sqrt(6) / math.pi
    return math.exp(logs.mean() + scale * (-math.log(RARE) - 0.5772))


class Quantity:
    """One tensor or number of the run. reach: how far two runs can lead a weight apart."""

    def __init__(self, name, draws, reach):
        values = numpy.stack([d.ravel() for d in draws]).astype(numpy.float64)
        count = len(values)
        self.name, self.shape, self.mean = name, draws[0].shape, values.mean(0)
        errors = values - self.mean
        # Adam divides by the size of a gradient: where that is noise alone, a weight may move in the other direction.
        # So many elements as do so in the draws may in a run, but one that happens to be none of theirs must not
        # decide.
        moves = numpy.abs(errors).max(0) > 2.0**-20 * numpy.abs(self.mean)  # has a gradient: others are as good as exact
        usual = math.sqrt(numpy.median(errors[:, moves] ** 2) / 0.4549)  # the median of the square of a normal variable
        self.cut = CUT * usual if name.startswith("weight ") else math.inf
        squares = self.square(errors) * count / (count - 1)
        self.expected = squares.mean()
        # Degrees of freedom of a chi-square with that variance (Satterthwaite).
        freedom = 2 * self.expected**2 / (squares.var(ddof=1) * UNSURE)
        freedom = min(max(freedom, 1.0), moves.sum())
        self.allowed = math.sqrt(most(freedom, (count - 1) * freedom) * self.expected * (1 + 1 / count))
        self.bound_elements(errors, usual, reach)

    def bound_elements(self, errors, usual, reach):
        """Each draw is held against the others, as a run is against all."""
        count, total = len(errors), (errors**2).sum(0)
        apart = numpy.abs(errors) * count / (count - 1)
        others = (total - errors * apart) / (count - 2)
        self.beyond = CUT * numpy.sqrt(total / (count - 1) + usual**2)  # by element
        self.counts = (apart > CUT * numpy.sqrt(others + usual**2)).sum(1)
        self.allowed_largest = reach + CUT * usual if math.isfinite(self.cut) else most_of_largest(apart.max(1))

    def square(self, errors):
        return (numpy.minimum(numpy.abs(errors), self.cut) ** 2).mean(-1)

    def distances(self, found):
        """(dimensions, distance of the run, distance allowed): root mean squares in units of that which is predicted."""
        usual = math.sqrt(self.expected)
        distance = math.sqrt(self.square(found.astype(numpy.float64).ravel() - self.mean))
        return len(self.shape) if self.mean.size > 1 else 0, distance / usual, self.allowed / usual

    def comparisons(self, found):
        """(what, found, allowed). The root mean square of the distance from the mean of the draws, of tensors also elements."""
        if found.shape != self.shape:
            return [(f"shape of {self.name}: {found.shape}", 1, 0)]
        if not numpy.isfinite(found).all():
            return [(f"{self.name}: {(~numpy.isfinite(found)).sum()} not finite", math.inf, 0)]
        errors = found.astype(numpy.float64).ravel() - self.mean
        held = [(self.name, math.sqrt(self.square(errors)), self.allowed)]
        if errors.size > 1:
            sizes = numpy.abs(errors)
            held += [(f"{self.name} (largest)", sizes.max(), self.allowed_largest),
                     (f"{self.name} (elements beyond {CUT:g} times their usual)", (sizes > self.beyond).sum(), self.allowed_beyond)]
        return held


class Prediction:
    def __init__(self, expect, draws):
        reach = 2 * sum(expect["lr"]) * (1 + expect["optimizer"]["weight_decay"])  # Adam's step is a learning rate, and decay
        self.quantities = {name: Quantity(name, [d[name] for d in draws], reach) for name in draws[0]}
        kinds = collections.defaultdict(list)  # weights, gradients
        for name, quantity in self.quantities.items():
            kinds[name.split()[0]].append(quantity)
        for alike in kinds.values():
            cluster = cluster_size(numpy.stack([quantity.counts for quantity in alike]))
            for quantity in alike:
                quantity.allowed_beyond = most_counted(quantity.counts, cluster)

    def comparisons(self, found):
        """As compare.py's. found: as Training.results."""
        names = [(f"{name} is {'missing' if name in self.quantities else 'not expected'}", 1, 0)
                 for name in sorted(set(found) ^ set(self.quantities))]
        return names + [one for name, quantity in self.quantities.items() if name in found
                        for one in quantity.comparisons(found[name])]

    def distances(self, found):
        """The distances of each quantity, as Quantity.distances."""
        return [quantity.distances(found[name]) for name, quantity in self.quantities.items()]


def describe(distances):
    """A line for numbers, vectors and matrices each: how far runs were off, and how far they might have been."""
    lines = []
    for dimensions, what in enumerate(("numbers", "vectors", "matrices")):
        found, allowed = ([d[i] for d in distances if d[0] == dimensions] for i in (1, 2))
        if found:
            low, middle, high = numpy.quantile(found, (0.05, 0.5, 0.95))
            lines.append(f"{what}: off by {middle:.2f} of the rounding predicted ({low:.2f} to {high:.2f} in 9 of 10, "
                         f"{max(found):.2f} at most), allowed {min(allowed):.1f} to {max(allowed):.1f}")
    return lines


def predict(cases, jobs, **precision):
    """For each of (golden, layout of gradients or nothing): the prediction. layout: (data ranks, microbatches), of which
    rounding depends where gradients are bf16. precision: of Training."""
    with multiprocessing.Pool(jobs) as pool:
        draws = {case: [pool.apply_async(draw, (*case, seed), precision) for seed in range(DRAWS)] for case in cases}
        return {case: Prediction(case[0].expect, [d.get() for d in pending]) for case, pending in draws.items()}
