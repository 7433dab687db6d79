#!/usr/bin/env python3
# Group D of docs/composition-bugs.md: weights that several stages hold.
# Saving compares all copies of a weight first and fails if two differ; every run here saves.
import models
from harness import compare_layouts, main  # plan_lists is found by its path
import plan_lists
from models import GPT2, QWEN3


def test_17_tied_over_stages_and_data(session):
    for config in (GPT2, QWEN3):
        compare_layouts(session, config, [f"--pp 2 --dp 2 --zero {zero} {tp}" for zero in (0, 1) for tp in ("", "--tp 2")])


# The tie's sum comes behind the reduction over the data ranks, of each rank's slice of a bucket of equal length on each stage.
def test_17_tie_has_a_bucket_of_its_own(session):
    plan = session.plan(GPT2, "--pp 2 --dp 2 --zero 1")
    tied = [[b for b in stage["buckets"] if b.get("tiedStages")] for stage in plan["stages"]]
    assert [len(buckets) for buckets in tied] == [1, 1], tied
    assert tied[0][0]["elements"] == tied[1][0]["elements"] and tied[0][0]["tiedStages"] == [0, 1]
    for n, stage in enumerate(plan["stages"]):
        shared = [p["name"] for p in plan["parameters"] for place in p["places"] if place["stage"] == n
                  and stage["buckets"][place["bucket"]].get("tiedStages")]
        assert shared == ["transformer.wte.weight"], shared
    for program in plan["programs"]:
        if program["name"].startswith("reduce"):
            scatter, tie = [i for i in program["instructions"] if i["op"] == "collective"][:2]
            assert scatter["kind"] == "reduce_scatter" and tie["kind"] == "all_reduce" and tie["stages"] == [0, 1], (scatter, tie)
            assert tie["chunk"] == tied[0][0]["elements"] // 2, tie


def test_18_copies_stay_equal(session):
    for config in (models.with_layers(GPT2, 4), models.with_layers(QWEN3, 4)):
        compare_layouts(session, config, ["--pp 2 --vpp 2 --schedule interleaved", "--pp 4 --zero 1", "--pp 3",
                                          "--pp 2 --schedule zb-v",
                                          "--pp 2 --tp 2 --sp --schedule zb-h1"], steps=3,
                        flags="--weight-decay 0.3")


# With everything on one stage, the one weight has one place and no tie.
def test_18_one_logical_parameter(session):
    places = lambda layout: {p["tensor"]: p["places"] for p in plan_lists.parameters(session.plan(GPT2, layout))}
    assert len(places("--tp 2")["transformer.wte.weight"]) == 1
    split = places("--pp 2")
    assert {name: len(found) for name, found in split.items() if len(found) > 1} == {"transformer.wte.weight": 2}


if __name__ == "__main__":
    main(globals())
