#!/usr/bin/env python3
# Group J of docs/composition-bugs.md: schedules, streams, hangs.
# The compiler proves its schedules (test/compiler/schedule sweeps them and mutates plans); here they run.
import copy

import models
from harness import assert_equal, assert_same_bits, main  # plan_lists is found by its path
import plan_lists
from models import GPT2

TINY = GPT2 | {"n_embd": 8, "n_head": 2, "n_inner": 8, "vocab_size": 17}
FOUR = models.with_layers(GPT2, 4)


def mismatches(plan):
    """The i-th send from a stage to another must meet the i-th receive there: as untagged messages would be paired."""
    found, stages = [], plan["stages"]
    for a, sender in enumerate(stages):
        for b, receiver in enumerate(stages):
            sent = [s for s in plan_lists.schedule(sender) if s["kind"] == "send" and s["peer"] == b]
            got = [s for s in plan_lists.schedule(receiver) if s["kind"] == "recv" and s["peer"] == a]
            if len(sent) != len(got):
                found.append(f"{len(sent)} sends from {a} to {b}, {len(got)} receives")
            found += [f"{x} from {a} meets {y} of {b}" for x, y in zip(sent, got)
                      if any(x[key] != y[key] for key in ("value", "microbatch", "bytes"))]
    return found


def valid_of(sequences):
    return tuple(models.VALID[i % 4] for i in range(sequences))


def test_36_next_and_previous_are_one_peer(session):
    for sequences in (2, 4):
        valid = valid_of(sequences)
        one = session.train(FOUR, "--tp 1", valid=valid)
        for schedule in ("interleaved", "gpipe", "zb-v"):
            layout = f"--pp 2 --vpp 2 --schedule {schedule}"
            plan = session.plan(FOUR, layout, sequences)
            assert plan["microbatches"] == sequences and not mismatches(plan), mismatches(plan)
            assert_equal(one, session.train(FOUR, layout, valid=valid), f"{layout}, {sequences} microbatches")


# The check above sees two crossed messages.
def test_36_crossed_messages_are_seen(session):
    plan = copy.deepcopy(session.plan(FOUR, "--pp 2 --vpp 2 --schedule interleaved", 4))
    steps = plan["stages"][0]["schedule"]
    first, second = [i for i, step in enumerate(steps) if step["kind"] == "send"][:2]
    steps[first], steps[second] = steps[second], steps[first]
    assert mismatches(plan)


def test_37_sweep(session):
    cases = [(pp, v, m) for pp in (2, 3, 4) for v in (1, 2, 3) for m in (1, 3, 9)]
    for number, (pp, v, m) in enumerate(cases):
        rows = {1: ("gpipe", "1f1b", "zb-h1", "auto"), 2: ("interleaved", "zb-v", "v-half", "dualpipev", "auto")}.get(
            v, ("interleaved", "gpipe"))
        layout = f"--pp {pp} --vpp {v} --schedule {rows[number % len(rows)]}"
        if number % 3 != m % 3 and m != 1:
            continue  # every (pp, v) with one microbatch, and a third of the others
        config, valid = models.with_layers(TINY, pp * v), valid_of(m)
        one, many = session.train(config, "--tp 1", valid=valid), session.train(config, layout, valid=valid)
        assert_equal(one, many, f"{layout}, {m} microbatches")


# Waits of the list: one taken away at a time is refused by the proofs unless another order implies it; the mutation
# tests (test/mutation) do that for whole plans. Here: pauses at random change no bit of a run.
def test_38_pauses_change_nothing(session):
    for layout in ("--pp 2 --vpp 2 --schedule interleaved --dp 2 --zero 1", "--pp 4 --schedule zb-h1 --tp 2",
                   "--pp 2 --vpp 2 --schedule zb-v --dp 2 --zero 1"):
        one = session.train(FOUR, layout)
        for seed in (1, 2):
            assert_same_bits(one, session.train(FOUR, layout, flags=f"--inject-delays {seed}"), layout)


if __name__ == "__main__":
    main(globals())
