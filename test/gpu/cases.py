# The cases of scripts/gpu-check: plans, compiled where LLVM is, and run where a GPU is. Each fact of a case stands here once;
# pack.py and check.py read it.
from dataclasses import dataclass, field

# Targets of the GPUs that are checked; a plan for sm_90 runs on newer ones too.
TARGET, TARGET_CAPABILITY = "cuda:sm_90", 9.0


@dataclass(frozen=True)
class Goldens:
    """Golden models and how they are trained. All ranks of a layout share the one GPU."""
    name: str
    models: tuple
    dtypes: tuple
    layouts: tuple


DENSE = Goldens("goldens", ("gpt2", "llama", "qwen3"), ("f32", "bf16"), (
    "tp1-pp1-dp1-zero0-mbs2-1f1b", "tp2-pp1-dp1-sp-zero0-mbs1-1f1b", "tp1-pp2-dp1-zero0-mbs1-zb-h1", "tp1-pp1-dp2-zero1-mbs1-1f1b",
    "tp2-pp2-dp2-sp-zero1-mbs1-1f1b"))
# With experts, whose choices in bf16 nobody predicts (test/e2e/golden.py): on each rank, exchanged, gathered; the last model has
# latent attention too.
EXPERTS = Goldens("experts", ("mixtral", "qwen3_moe", "deepseek_v3"), ("f32",), (
    "tp1-pp1-dp1-zero0-mbs2-1f1b", "tp2-ep4-etp1-alltoall-pp1-dp2-sp-zero1-mbs1-1f1b",
    "tp1-ep2-etp2-allgather-pp1-dp4-zero0-mbs1-1f1b"))
GOLDENS = (DENSE, EXPERTS)
GOLDEN_MODELS = DENSE.models + EXPERTS.models


@dataclass(frozen=True)
class Bench:
    """A model's layers and vocabulary, as many layers as fit into `gigabytes` of device memory. A step has several microbatches,
    as trainings have: the optimizer's time is shared by some 32,000 tokens, as on each GPU of a large run."""
    sequence: int
    batch: int  # sequences of a microbatch
    microbatches: int
    gigabytes: int  # memory that the plan may take, in 10^9 bytes
    model: str = "llama-3-8b"
    flags: tuple = field(default=("--dtype", "bf16"))

    @property
    def config(self):
        return f"examples/{self.model}/config.json"

    @property
    def name(self):
        return f"{self.model}-s{self.sequence}-b{self.batch}x{self.microbatches}-{self.gigabytes}gb"


# 141 GB (H200) and 80 GB (H100), less what the driver and the libraries take.
BENCHES = tuple(Bench(sequence, batch, 32768 // (sequence * batch), gigabytes, model) for gigabytes in (132, 72)
                for sequence, batch, model in ((4096, 1, "llama-3-8b"), (4096, 2, "llama-3-8b"), (8192, 1, "llama-3-8b"),
                                               (4096, 2, "qwen3-30b-a3b")))

# Plans that must be refused, and what the error has to say: one that no single GPU can hold, before anything is allocated; one for
# a newer GPU than the one that is checked.
TOO_LARGE = ("examples/llama-3-70b/config.json", ("--seq", "8192", "--mbs", "1", "--gbs", "1", "--dtype", "bf16"))
TOO_NEW, TOO_NEW_CAPABILITY = "cuda:sm_100", 10.0
REFUSALS = {"too-large": ("too little memory", "are free", "nothing was allocated", "would fit"),
            "too-new": ("need compute capability 10.0 (sm_100)", "this device")}
