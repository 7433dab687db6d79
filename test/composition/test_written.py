#!/usr/bin/env python3
# Models that no family has, written in config.json under mgc.model (docs/model-vocabulary.md): equal in every layout.
import models
import numpy
from harness import GRADIENT, assert_equal, differing, main
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


def assert_refused(session, config, text):
    try:
        session.compile(config, "--tp 1")
    except AssertionError as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"compiles: {text}")


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


def with_cross(span, **sizes):
    """An encoder-decoder whose cross-attention norms queries and keys."""
    both = {"causal": False, "qk_norm": {"norm": RMS, "span": span}}
    return written(layer=LAYER | {"cross": LAYER["attention"] | both | sizes, "cross_branch": {"before": RMS}},
                   encoder={"layer": with_layer(attention={"causal": False}), "layer_count": 3, "final_norm": RMS})


# The norm over all heads of one head is that over the head.
def test_norms_of_all_heads_in_cross_attention(session):
    flags = "--encoder-seq-length 12"
    one = assert_equal_in(session, with_cross("all_heads"), LAYERS, pairs(), flags)
    shapes = {name: one.gradients[f"model.layers.0.cross_attn.{name}_norm.weight"].shape for name in "qk"}
    assert shapes == {"q": (32,), "k": (16,)}, shapes
    single = [session.train_new(with_cross(span, heads=1, groups=1), f"--tp 1 {flags}", weights="seed", batch=pairs())
              for span in ("head", "all_heads")]
    assert_equal(*single, "one head")


TABLE, PROJECT = "model.embed_tokens.weight", "model.embed_project"


def wide(width, **fields):
    return written(embedding={"width": width}, **fields)


# A table T of another width and its product with P and b are a table T P' + b of the hidden size: with that table's
# gradient G those of T, P and b are G P, G' T and the sum of G's rows.
def test_a_width_of_embeddings(session):
    for width in (6, 24):
        config = wide(width)
        weights = session.train_new(config, "--tp 1", weights="seed", batch=BATCH, steps=0).weights
        weights[f"{PROJECT}.bias"] = numpy.linspace(-1, 1, 16, dtype=numpy.float32)
        table, project = weights[TABLE].astype(float), weights[f"{PROJECT}.weight"].astype(float)
        assert (table.shape, project.shape) == ((40, width), (16, width))
        of_hidden = {name: value for name, value in weights.items() if PROJECT not in name}
        of_hidden[TABLE] = (table @ project.T + weights[f"{PROJECT}.bias"]).astype(numpy.float32)
        plain = session.train_new(written(), "--tp 1", weights=of_hidden, batch=BATCH)
        found = session.train_new(config, "--tp 1", weights=weights, batch=BATCH)
        g = plain.gradients[TABLE].astype(float)
        expected = {TABLE: g @ project, f"{PROJECT}.weight": g.T @ table, f"{PROJECT}.bias": g.sum(0)}
        expected = plain.gradients | {name: value.astype(numpy.float32) for name, value in expected.items()}
        least = 0.05 * max(abs(value).max() for value in expected.values())  # as harness.differences has it
        bounds = {name: GRADIENT * max(abs(value).max(), least) for name, value in expected.items()}
        assert not (wrong := differing("gradient", expected, found.gradients, bounds)), f"width {width}: {wrong}"
        assert_equal_in(session, config, LAYERS)


# The head's transform has the width: its matrix may be the table. An encoder reads the table too.
def test_a_width_that_others_read(session):
    transform = {"activation": "gelu", "norm": {"kind": "layer", "bias": True}}
    shapes = []
    for tied in (True, False):
        one = assert_equal_in(session, wide(6, head={"tied": tied, "transform": transform}), LAYERS[:4:3])
        shapes += [one.gradients[name].shape for name in ("lm_head.dense.weight", TABLE if tied else "lm_head.weight")]
    assert shapes == [(6, 16), (40, 6)] * 2, shapes
    layer = LAYER | {"cross": LAYER["attention"] | {"causal": False}}
    encoder = {"layer": with_layer(attention={"causal": False}), "layer_count": 2, "embedding": {"width": 6}}
    assert_equal_in(session, wide(6, layer=layer, encoder=encoder), LAYERS[:4:3], pairs(), "--encoder-seq-length 12")


def test_widths_that_do_not_fit(session):
    tied = wide(6, head={"tied": True})
    assert_refused(session, tied, "head.tied: true with embedding.width = 6 and hidden = 16")
    encoder = {"layer": with_layer(attention={"causal": False}), "layer_count": 2, "embedding": {"width": 6}}
    layer = LAYER | {"cross": LAYER["attention"] | {"causal": False}}
    for encoded, text in (({"width": 6}, "encoder.embedding.width = 6 and embedding.width = 0"),
                          ({"types": 2}, "encoder.embedding.types = 2")):
        assert_refused(session, written(layer=layer, encoder=encoder | {"embedding": encoded}), text)
    images = {"layer": encoder["layer"], "layer_count": 2, "image_tokens": {"token": 3},
              "patches": {"channels": 1, "size": 2, "rows": 2, "columns": 2}}
    assert_refused(session, wide(6, encoder=images), "embedding.width = 6 with encoder.image_tokens")


if __name__ == "__main__":
    main(globals())
