"""Errors of predictions, and how well they choose among published layouts."""
import collections
import dataclasses
import itertools
import statistics

from .configurations import is_seen

TIE = 0.03  # published times that differ by less have no order


def errors(results):
    """Count, mean, median and largest of |predicted / published - 1|."""
    found = [abs(result.ratio - 1) for result in results]
    return len(found), statistics.mean(found), statistics.median(found), max(found)


BY = {
    "table": lambda row: row.table,
    "model": lambda row: row.model,
    "machine": lambda row: row.machine,
    "stack": lambda row: row.stack,
    "stack and machine": lambda row: f"{row.stack} {row.machine}",
    "part": lambda row: "seen" if is_seen(row.model) else "held",
}


def parts(results, by):
    found = collections.defaultdict(list)
    for result in results:
        found[BY[by](result.row)].append(result)
    return {part: errors(of_part) for part, of_part in sorted(found.items())}


@dataclasses.dataclass(frozen=True)
class Layout:
    """A layout of a group; releases that ran the same one count as their mean."""
    predicted: float
    published: float
    results: list

    @property
    def row(self):
        return self.results[0].row


@dataclasses.dataclass(frozen=True)
class Choice:
    """Layouts of one model, devices and batch, and what choosing the one predicted fastest costs."""
    group: tuple
    layouts: list
    regret: float
    tau: float  # None where no two published times have an order

    @property
    def chosen(self):
        """The layout predicted fastest; of several, the slowest of them in fact."""
        return min(self.layouts, key=lambda layout: (layout.predicted, -layout.published))

    @property
    def fastest(self):
        return min(self.layouts, key=lambda layout: layout.published)


def layouts(results):
    found = collections.defaultdict(list)
    for result in results:
        found[result.row.flags].append(result)
    return [Layout(of_layout[0].seconds, statistics.mean(result.row.seconds for result in of_layout), of_layout)
            for of_layout in found.values()]


def tau(found):
    """Kendall's, over the pairs of layouts whose published times have an order; None where there are none."""
    orders = [(a.predicted - b.predicted) * (a.published - b.published) for a, b in itertools.combinations(found, 2)
              if abs(a.published - b.published) > TIE * min(a.published, b.published)]
    return (sum(order > 0 for order in orders) - sum(order < 0 for order in orders)) / len(orders) if orders else None


def choices(results):
    """A Choice of each group with several layouts."""
    groups = collections.defaultdict(list)
    for result in results:
        groups[result.row.group].append(result)
    for group, of_group in groups.items():
        choice = Choice(group, layouts(of_group), 0, None)
        if len(choice.layouts) > 1:
            yield dataclasses.replace(choice, regret=choice.chosen.published / choice.fastest.published - 1,
                                      tau=tau(choice.layouts))


def groups(rows):
    """The rows of groups with several layouts: those that choices are about."""
    found = collections.defaultdict(list)
    for row in rows:
        if not row.reason and not row.bound:
            found[row.group].append(row)
    return [row for of_group in found.values() if len({row.flags for row in of_group}) > 1 for row in of_group]
