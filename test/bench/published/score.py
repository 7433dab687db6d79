"""Errors of predictions, and how well they choose among published layouts."""
import collections
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


def layouts(results):
    """(predicted, published seconds) of each layout of a group; releases that ran the same layout count as their mean."""
    found = collections.defaultdict(list)
    for result in results:
        found[result.row.flags].append(result)
    return [(of_layout[0].seconds, statistics.mean(result.row.seconds for result in of_layout)) for of_layout in found.values()]


def tau(pairs):
    """Kendall's, over the pairs of layouts whose published times have an order; None where there are none."""
    orders = [(a[0] - b[0]) * (a[1] - b[1]) for a, b in itertools.combinations(pairs, 2)
              if abs(a[1] - b[1]) > TIE * min(a[1], b[1])]
    return (sum(order > 0 for order in orders) - sum(order < 0 for order in orders)) / len(orders) if orders else None


def choices(results):
    """Groups of one model, devices and batch with several layouts: (group, layouts, regret, tau)."""
    groups = collections.defaultdict(list)
    for result in results:
        groups[result.row.group].append(result)
    for group, of_group in groups.items():
        found = layouts(of_group)
        if len(found) > 1:
            chosen = max(published for predicted, published in found if predicted == min(found)[0])
            yield group, len(found), chosen / min(published for _, published in found) - 1, tau(found)
