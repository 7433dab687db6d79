#!/usr/bin/env python3
# Group K of docs/composition-bugs.md: bits.
import models
from harness import assert_same_bits, main
from models import DROPOUT, GPT2, QWEN3

LAYOUTS = ("--tp 4 --sp", "--tp 2 --dp 2 --zero 1", "--tp 2 --pp 2 --dp 2 --zero 1 --schedule zb-h1")


# For one number of threads per rank: oneDNN splits sums of some shapes over its threads, on some CPUs.
def test_39_same_plan_same_bits(session):
    config = GPT2 | DROPOUT
    for layout in LAYOUTS:
        for threads in ("--threads 1", "--threads 4"):
            one = session.train(config, layout, flags=threads)
            again = session.train_new(config, layout, flags=threads)
            assert_same_bits(one, again, f"{layout} {threads}, again")
            for delays in ("--inject-delays 3", "--inject-delays 4"):
                delayed = session.train(config, layout, flags=f"{threads} {delays}")
                assert_same_bits(one, delayed, f"{layout} {threads} {delays}")


def test_39_same_plan_from_the_same_model(session):
    first = session.compile(GPT2, LAYOUTS[2])
    session.plans.clear()
    again = session.compile(GPT2, LAYOUTS[2])
    assert first != again and (first / "plan.json").read_bytes() == (again / "plan.json").read_bytes()


# Saving compares all replicas, bit for bit, and fails if two differ.
def test_40_replicas_after_ten_steps(session):
    for config in (models.with_layers(GPT2, 4), models.with_layers(QWEN3, 4) | {"num_key_value_heads": 1}):
        for layout in (*LAYOUTS, "--tp 4 --pp 2 --sp --zero 1"):
            session.train(config, layout, steps=10, flags="--lr 0.05")


if __name__ == "__main__":
    main(globals())
