"""The zoo: a tiny model of every kind of transformer, with the switches that its class in transformers has.

A family is a class of transformers: `fields` are those of its config.json, of a size that any interpreter trains in a moment
and every layout of the tests divides (tp, pp and cp of 2); each variant changes some of them. Facts alone, no torch.

    for tiny in zoo.TINY: tiny.name, tiny.config      gemma2, {"model_type": "gemma2", ..}; gemma2-uncapped, ..
"""
from dataclasses import dataclass, field

# Kinds of labels and inputs: Tiny.kind.
CAUSAL, MASKED, SEQ2SEQ, IMAGES = "causal", "masked", "seq2seq", "images"


@dataclass(frozen=True)
class Family:
    """`used_by`: published models, for docs/models.md. `variants`: by name, the fields that differ."""
    model_type: str
    architecture: str
    used_by: str
    fields: dict
    variants: dict = field(default_factory=dict)
    kind: str = CAUSAL
    attention: str = "eager"  # the code of transformers that computes the reference

    def tiny(self):
        return [Tiny(self, "", self.fields), *(Tiny(self, name, self.fields | own) for name, own in self.variants.items())]


@dataclass(frozen=True)
class Tiny:
    """A family's tiny model."""
    family: Family
    variant: str
    fields: dict

    @property
    def name(self):
        return f"{self.family.model_type}-{self.variant}" if self.variant else self.family.model_type

    @property
    def config(self):
        return {"model_type": self.family.model_type, "architectures": [self.family.architecture], **self.fields}


from zoo import decoders, encoders, experts, images  # noqa: E402  they need Family

FAMILIES = sorted(decoders.FAMILIES + experts.FAMILIES + encoders.FAMILIES + images.FAMILIES, key=lambda family: family.model_type)
TINY = [tiny for family in FAMILIES for tiny in family.tiny()]


def select(patterns):
    """The tiny models whose name, or whose family's, is one of these; all for none."""
    unknown = set(patterns) - {tiny.name for tiny in TINY} - {family.model_type for family in FAMILIES}
    if unknown:
        raise SystemExit(f"no such model: {', '.join(sorted(unknown))}; there are {', '.join(tiny.name for tiny in TINY)}")
    return [tiny for tiny in TINY if not patterns or {tiny.name, tiny.family.model_type} & set(patterns)]
