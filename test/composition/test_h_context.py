#!/usr/bin/env python3
# Group H of docs/composition-bugs.md: what attention is asked for holds under every type of context parallelism.
import models
from harness import assert_equal, assert_same_bits, instructions, main
from models import DROPOUT, GPT2, LLAMA, QWEN3

MISTRAL = {key: value for key, value in LLAMA.items() if key not in ("attention_bias", "mlp_bias")} | {
    "model_type": "mistral", "sliding_window": 5}
ODD_SCALE = LLAMA | {"head_dim": 8}
FEW_GROUPS = LLAMA | {"num_key_value_heads": 1}
TYPES = ("--cp 2", "--cp 4 --cp-order contiguous", "--cp 2 --cp-comm-type a2a", "--cp 4 --cp-comm-type a2a --cp-order zigzag",
         "--cp 4 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2",
         "--cp 8 --cp-comm-type a2a+p2p,a2a+all_gather --hierarchical-context-parallel-sizes 2 4 --cp-order contiguous",
         "--cp 2 --cp-comm-type a2a,all_gather",
         "--cp 2 --cp-comm-type p2p", "--cp 4 --cp-comm-type p2p --cp-order contiguous", "--cp 4 --cp-comm-type p2p,a2a")


# Each property, at a value that changes the result, under each type; of a sample under some of them.
def test_33_every_property_under_every_type(session):
    plain = session.train(LLAMA, "--tp 1").log[0]["loss"]
    for offset, config in enumerate((GPT2, GPT2 | DROPOUT, LLAMA, MISTRAL, ODD_SCALE, FEW_GROUPS, QWEN3)):
        one = session.train(config, "--tp 1")
        assert config is LLAMA or one.log[0]["loss"] != plain, "the property changes nothing"
        for layout in session.some(TYPES, offset):
            assert_equal(one, session.train(config, layout), f"{config['model_type']} {layout}")


def test_33_with_every_other_axis(session):
    for offset, config in enumerate((GPT2 | DROPOUT, MISTRAL)):
        one = session.train(config, "--tp 1")
        for layout in session.some(("--cp 2 --tp 2 --sp", "--cp 2 --tp 2 --no-sp --cp-comm-type a2a", "--cp 2 --dp 2 --zero 1 --overlap-grad-reduce",
                       "--cp 2 --pp 2 --tp 2 --schedule zb-h1 --cp-comm-type a2a", "--cp 4 --pp 2 --schedule gpipe",
                       "--cp 2 --tp 4 --sp", "--cp 2 --tp 2 --sp --cp-comm-type p2p", "--cp 4 --pp 2 --cp-comm-type p2p",
                       "--cp 2 --dp 2 --tp 2 --no-sp --zero 1 --schedule zb-h1 --pp 2 --cp-comm-type p2p",
                       "--cp 4 --tp 2 --sp --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2 --zero 1",
                       "--cp 4 --pp 2 --schedule zb-h1 --cp-comm-type a2a+p2p --hierarchical-context-parallel-sizes 2 2"), offset):
            assert_equal(one, session.train(config, layout), f"{config['model_type']} {layout}")


# The op has features that no family uses yet: caps, slopes, keys on both sides, and windows of those.
def test_33_what_queries_see_and_how_scores_are_made(session):
    slopes = ", ".join(str(0.5 ** (head + 1)) for head in range(LLAMA["num_attention_heads"]))
    single = ("softcap = 0.7 : f64", f"slopes = array<f64: {slopes}>", "causal = false", "causal = false, window = 5 : i64")
    losses = {session.train(LLAMA, "--tp 1").log[0]["loss"]}
    for facts, layouts in (*((one, ("--tp 2", "--cp 4 --cp-comm-type p2p")) for one in single),
                           (", ".join(single[:3]), (*TYPES, "--cp 2 --tp 2 --sp --cp-comm-type p2p", "--tp 2 --pp 2 --sp")),
                           (", ".join((*single[:2], single[3])), TYPES)):
        edit = ("queriesPerGroup", f"{facts}, queriesPerGroup")
        one = session.train_new(LLAMA, "--tp 1", edit=edit)
        assert one.log[0]["loss"] not in losses, f"{facts} changes nothing"
        losses.add(one.log[0]["loss"])
        for layout in session.some(layouts, len(losses)):
            assert_equal(one, session.train_new(LLAMA, layout, edit=edit), f"{facts} {layout}")


# A rank of cp is a replica of the weights: same drawn values, and gradients over dp and cp in one reduction.
def test_33_ranks_of_cp_share_weights(session):
    one = session.train(GPT2, "--tp 1", steps=0, weights="seed")
    for layout in TYPES:
        assert_same_bits(one, session.train(GPT2, layout, steps=0, weights="seed"), layout)
    plan = session.plan(GPT2, "--cp 2 --dp 2 --zero 1")
    for stage in plan["stages"]:
        assert all(set(bucket["dataAxes"]) == {"dp", "cp"} for bucket in stage["buckets"]), stage["buckets"]


# A rank's activations of a microbatch shrink with cp: all of them are per position, or per head of whole sequences.
def test_33_activations_fall_with_cp(session):
    def kept(layout):
        stage = session.plan(LLAMA, layout)["stages"][0]
        return sum(region["bytes"] for region in stage["regions"] if region["kind"] == "activations")

    whole = kept("--tp 1")
    for cp in (2, 4):
        for kind in ("all_gather", "a2a", "p2p", f"a2a+p2p --hierarchical-context-parallel-sizes 2 {cp // 2}"):
            assert kept(f"--cp {cp} --cp-comm-type {kind}") == whole // cp, (cp, kind)


RESET = "--reset-position-ids --reset-attention-mask"
LENGTHS = ((1, 7, 8), (16,), (5, 1, 9, 1), (3, 13))  # an odd token last, an end between two chunks of cp, one document


# Documents in packed sequences train as each would alone: they see nothing of each other, each counts its own positions.
def test_31_documents_train_as_if_alone(session):
    for offset, config in enumerate((GPT2, LLAMA, MISTRAL, QWEN3)):
        packed, alone = models.packed_and_alone(config, LENGTHS)
        one = session.train_new(config, "--tp 1", batch=alone)
        assert one.log[0]["loss"] != session.train_new(config, "--tp 1", batch=packed | {
            "position_ids": models.documents_of([(16,)] * 4)}).log[0]["loss"], "documents change nothing"
        for layout in session.some(("--tp 1", "--tp 2 --sp --pp 2", "--dp 2 --zero 1", "--cp 2 --tp 2 --pp 2 --schedule zb-h1", *TYPES), offset):
            found = session.train_new(config, f"{layout} {RESET}", batch=packed)
            assert_equal(one, found, f"{config['model_type']} {layout}")


# Each of the two flags has an effect that the other lacks. (Rotary angles say how far apart two tokens of a document are: where documents
# see nothing of each other they may count on.)
def test_31_positions_and_mask_apart(session):
    packed, _ = models.packed_and_alone(GPT2, LENGTHS)
    both, *single = (session.train_new(GPT2, f"--tp 1 {flags}", batch=packed).log[0]["loss"]
                     for flags in (RESET, "--reset-position-ids", "--reset-attention-mask"))
    assert len({both, *single}) == 3
    packed, _ = models.packed_and_alone(LLAMA, LENGTHS)
    for offset, flag in enumerate(RESET.split()):
        one = session.train_new(LLAMA, f"--tp 1 {flag}", batch=packed)
        for layout in session.some(TYPES, offset):
            assert_equal(one, session.train_new(LLAMA, f"{layout} {flag}", batch=packed), f"{layout} {flag}")


# A sequence of one document gives the bits of a plan that knows no documents, dropout included.
def test_31_one_document_gives_the_bits_of_none(session):
    for offset, config in enumerate((GPT2 | DROPOUT, LLAMA)):
        whole = models.random_batch(config)
        for layout in session.some(("--tp 1", "--tp 2 --sp --pp 2 --dp 2 --zero 1", *TYPES), offset):
            one = session.train_new(config, f"{layout} {RESET}", batch=whole | {"position_ids": models.documents_of([(16,)] * 4)})
            assert_same_bits(session.train(config, layout), one, layout)


# The longest document decides whether learned positions suffice, not the sequence.
def test_31_sequences_longer_than_learned_positions(session):
    short = GPT2 | {"n_positions": 8}
    fitting, long = models.documents_of([(8, 8)] * 4), models.documents_of([(9, 7)] * 4)
    whole = models.random_batch(short)
    session.train_new(short, f"--tp 2 --cp 2 {RESET}", batch=whole | {"position_ids": fitting})
    try:
        session.train_new(short, f"--tp 1 {RESET}", batch=whole | {"position_ids": long})
    except AssertionError as error:
        assert "position 8: the document has more than 8 tokens" in str(error), error
    else:
        raise AssertionError("a document of 9 tokens with 8 positions runs")


# Documents are no facts of the plan before the data is there: no kernel that takes positions for granted may run.
def test_31_no_attention_takes_documents_for_granted(session):
    plan = session.plan(LLAMA, f"--cp 2 --target cuda:sm_90 --dtype bf16 {RESET}")
    attentions = [i for i in instructions(plan) if i["op"] == "attention"]
    assert attentions and all(i["documents"] for i in attentions)


if __name__ == "__main__":
    main(globals())
