#!/usr/bin/env python3
# Group K of docs/composition-bugs.md: bits.
import models
from harness import assert_same_bits, main
from models import DROPOUT, GPT2, QWEN3

LAYOUTS = ("--tp 4 --sp", "--tp 2 --dp 2 --zero 1", "--tp 2 --pp 2 --dp 2 --zero 1 --schedule zb-h1")


def test_39_same_plan_same_bits(session):
    config = GPT2 | DROPOUT
    for layout in LAYOUTS:
        one = session.train(config, layout, flags="--threads 1")
        again = session.train_new(config, layout, flags="--threads 1")
        assert_same_bits(one, again, f"{layout}, again")
        for flags in ("--threads 4", "--inject-delays 3", "--threads 4 --inject-delays 4"):
            assert_same_bits(one, session.train(config, layout, flags=flags), f"{layout} {flags}")


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
