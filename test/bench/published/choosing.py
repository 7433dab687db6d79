"""The cost of choosing the layout that is predicted fastest, beside the goals."""
import collections
import statistics

MEAN, LARGEST, TAU = 0.01, 0.05, 0.8  # goals: of regret over groups, and of tau in each
CALCULON = (0.0127, 0.0446, 0.62)  # mean and largest regret, mean tau, of Calculon at caa4b11


def percent(part, digits=1):
    return f"{100 * part:.{digits}f} %"


def misses(choice):
    """The goals that a group misses, with its figures."""
    found = [f"regret {percent(choice.regret)}"] if choice.regret > LARGEST else []
    return found + ([f"tau {choice.tau:.2f}"] if choice.tau is not None and choice.tau < TAU else [])


def summary(choices):
    regrets, taus = [choice.regret for choice in choices], [choice.tau for choice in choices if choice.tau is not None]
    mean, largest = statistics.mean(regrets), max(regrets)
    verdict = "within" if mean <= MEAN and largest <= LARGEST else "not within"
    yield (f"regret {percent(mean)} mean, at most {percent(largest)}: {verdict} {percent(MEAN, 0)} and {percent(LARGEST, 0)}")
    if taus:
        below = sum(tau < TAU for tau in taus)
        yield f"tau {statistics.mean(taus):.2f} mean, at least {min(taus):.2f}: below {TAU} in {below} of {len(taus)} groups"


def group_text(choice):
    model, layers, devices, batch, sequence, machine, stack = choice.group
    return (f"{model} of {layers} layers, {devices} {machine}, batch {batch} of {sequence}, {stack}: {len(choice.layouts)} layouts, "
            f"regret {percent(choice.regret)}, tau {'-' if choice.tau is None else f'{choice.tau:.2f}'}")


def parts_text(choice):
    """By how much the fastest layout is predicted slower than the chosen one, by parts."""
    parts = [layout.results[0].parts for layout in (choice.fastest, choice.chosen)]
    differences = {part: seconds - parts[1][part] for part, seconds in parts[0].items()}
    largest = sorted(differences.items(), key=lambda item: -abs(item[1]))[:4]
    return ", ".join(f"{part} {100 * seconds / choice.chosen.predicted:+.1f} %" for part, seconds in largest)


def report_miss(choice):
    print(f"  {group_text(choice)}\n    misses {' and '.join(misses(choice))}")
    if choice.chosen is not choice.fastest:
        print(f"    the fastest by prediction - the chosen, of the chosen's step: {parts_text(choice)}")
    for layout in sorted(choice.layouts, key=lambda layout: layout.published):
        mark = "chosen" if layout is choice.chosen else "fastest" if layout is choice.fastest else ""
        print(f"    {mark:8}{layout.published:8.4g} s published {layout.predicted:8.4g} s predicted  {layout.row.place:24} "
              f"{layout.row.layout}")


def report(choices):
    print("\nchoice of the layout that is predicted fastest, where a model ran in several")
    for choice in choices:
        print(f"  {group_text(choice)}")
    stacks = collections.defaultdict(list)
    for choice in choices:
        stacks[choice.group[-1]].append(choice)
    for stack, found in {**stacks, "all stacks": choices}.items():
        print(f"  {stack}, {len(found)} groups: {'; '.join(summary(found))}")
    mean, largest, tau = CALCULON
    print(f"  Calculon's: regret {percent(mean, 2)} mean, at most {percent(largest, 2)}; tau {tau} mean")


def report_misses(choices):
    missed = [choice for choice in choices if misses(choice)]
    print(f"\n{len(missed)} of {len(choices)} groups miss a goal: regret {percent(LARGEST, 0)}, tau {TAU}")
    for choice in missed:
        report_miss(choice)
