#!/usr/bin/env python3
# Models that no family has, written in config.json under mgc.model (docs/model-vocabulary.md): equal in every layout.
import models
import numpy
from harness import assert_equal, main
from test_h_context import TYPES

CONTEXTS = (*(layout for layout in TYPES if "," not in layout), "--cp 2 --cp-comm-type all_gather,p2p,p2p,all_gather",
            "--cp 2 --tp 2 --pp 2 --sp --cp-comm-type p2p")

RMS = {"kind": "rms"}
LAYER = {"attention_branch": {"before": RMS}, "mlp_branch": {"before": RMS},
         "attention": {"heads": 4, "groups": 2, "head_dim": 8}, "mlp": {"ffn": 32, "gated": True, "activation": "silu"}}
LAYERS = ("--tp 2 --pp 2 --sp", "--tp 2 --dp 2 --zero 1 --overlap-grad-reduce", "--pp 2 --vpp 2 --schedule interleaved",
          "--tp 4 --pp 2 --schedule zb-h1", "--pp 4 --dp 2 --zero 1", "--pp 2 --schedule zb-v")


def written(**fields):
    """A description of a model with 4 layers."""
    model = {"vocabulary": 40, "hidden": 16, "positions": models.SEQUENCE, "layer_count": 4, "layer": LAYER,
             "initializer_range": 0.2, "final_norm": RMS} | fields
    return {"model_type": "mgc", "mgc": {"model": model}}


def with_layer(**fields):
    return LAYER | {name: LAYER.get(name, {}) | of for name, of in fields.items()}


BATCH = models.random_batch({"vocab_size": 40})


def assert_equal_in(session, config, layouts, batch=BATCH, flags=""):
    train = lambda layout: session.train_new(config, f"{layout} {flags}", weights="seed", batch=batch)
    one = train("--tp 1")
    assert all(abs(gradient).max() > 0 for gradient in one.gradients.values())
    for layout in layouts:
        assert_equal(one, train(layout), layout)
    return one


# One table for all layers of a stack, whose gradients ranks of every axis add up.
def test_biases_of_distances(session):
    config = written(layer=with_layer(attention={"relative_bias": {"buckets": 6, "max_distance": 12}}))
    one = assert_equal_in(session, config, LAYERS + CONTEXTS)
    assert one.gradients["model.relative_attention_bias.weight"].shape == (6, 4)


# Products that are joined in one layer and not, or with others, in the next.
def test_layers_of_many_kinds(session):
    config = written(layers=[{"from": 1, "to": 1, "attention": {"gated": True}}, {"from": 2, "to": 2, "mlp": {"gated": False}},
                             {"from": 3, "to": 3, "attention": {"qkv_bias": True, "window": 5}, "mlp": {"ffn": 48}}])
    assert_equal_in(session, config, (*LAYERS, "--cp 2", "--cp 2 --cp-comm-type a2a --tp 2"))


def pairs():
    """A batch of pairs: an encoder's 12 tokens, some of them padding, and the decoder's."""
    steps, samples, _ = BATCH["labels"].shape
    mask = numpy.arange(12) < numpy.array([12, 5, 1, 9])[:, None]
    tokens = numpy.random.default_rng(7).integers(0, 40, (steps, samples, 12))
    return {"input_ids": tokens, "attention_mask": numpy.broadcast_to(mask, tokens.shape).astype(numpy.int64),
            "decoder_input_ids": BATCH["input_ids"], "labels": BATCH["labels"]}


# Gates, norms of heads, rotation and biases of distances on both sides of an encoder-decoder.
def test_an_encoder_and_a_decoder(session):
    both = {"causal": False, "gated": True, "qk_norm": {"norm": RMS}}
    layer = with_layer(attention={"rope": {"theta": 100.0}})
    encoder = with_layer(attention=both | {"relative_bias": {"buckets": 8, "max_distance": 9}}, mlp={"ffn": 48})
    config = written(layer=layer | {"cross": LAYER["attention"] | both, "cross_branch": {"before": RMS, "after": RMS}},
                     encoder={"layer": encoder, "layer_count": 3, "final_norm": RMS, "embedding": {"scale": 2.0}})
    assert_equal_in(session, config, LAYERS, pairs(), "--encoder-seq-length 12")


if __name__ == "__main__":
    main(globals())
