"""Memory of a rank of Megatron-LM, tensor by tensor, beside what a plan of the same model keeps.

Sources: Megatron-LM 23e00ed (2025-10) and Transformer Engine 2.11 (c188b533), the versions of the B200 runs, and the
model of Megatron-LM of 2023. No number is fitted: each is a size of the model times the bytes of its type. h hidden, f
feed-forward, k all keys' elements, a heads.
"""
import dataclasses
from fractions import Fraction

MIB, GIB = 1 << 20, 1 << 30
CUBLAS = 32 * MIB  # a workspace on compute capability 9.0 and above, PyTorch's and Transformer Engine's alike
GROUPED_STREAMS = 4  # streams of Transformer Engine's grouped products, each with a workspace
UPDATE = 12  # bytes of an optimizer's state: master and two moments


@dataclasses.dataclass(frozen=True)
class Saved:
    """A tensor that a layer keeps from forward to backward, bytes of a token. whole: tensor parallelism does not divide
    it."""
    name: str
    megatron: float
    plan: float
    whole: bool = False

    def bytes(self, side, tensor_ranks):
        return getattr(self, side) / (1 if self.whole else tensor_ranks)


@dataclasses.dataclass(frozen=True)
class Model:
    hidden: int
    vocabulary: int
    kinds: list  # kinds of layers: what each keeps
    weights: list  # by kind: (rows, columns) of each matrix
    vectors: list  # by kind: elements of norms, the router and biases; (divided by tensor parallelism, whole)
    layers: list  # the kind of each
    experts: list = dataclasses.field(default_factory=list)  # (rows, columns) of an expert's matrices, in layers of kind 1
    expert_count: int = 0
    rows: float = 0  # rows that a rank's experts have for each of its tokens
    function: tuple = ()  # bytes of what the activation function reads and makes in the last layer, and of the sum
    table_rows: int = 0  # learned positions
    is_tied: bool = False
    norm: int = 0  # elements of the last norm, if not hidden


def llama(config, layers, context_all_to_all=False):
    """A layer of Transformer Engine: norms are parts of the products behind them, attention is fused."""
    h, f, a = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    k = h // a * config["num_key_value_heads"]
    saved = [Saved("input of the layer", 2 * h, 2 * h), Saved("output of its norm", 2 * h, 0),
             Saved("roots of both norms", 8, 0),
             Saved("queries", 2 * h, 2 * h), Saved("keys and values", 4 * k, 4 * k), Saved("output of attention", 2 * h, 2 * h),
             Saved("sums of attention's rows", 4 * a, 4 * a),
             Saved("sum behind attention", 2 * h, 2 * h), Saved("output of its norm (MLP)", 2 * h, 0),
             Saved("gate and up", 4 * f, 4 * f), Saved("their product", 2 * f, 0)]
    if context_all_to_all:
        saved.append(Saved("output of attention before it is exchanged", 2 * h, 0))
    weights = [(h + 2 * k, h), (h, h), (2 * f, h), (h, f)]
    return Model(h, config["vocab_size"], [saved], [weights], [(0, 2 * h)], [0] * layers, function=(2 * f, 4 * f, 2 * h))


def deepseek(config, tokens):
    """The first layers dense; room for each expert's mean of the choices, which Megatron-LM pads."""
    h, a, m = config["hidden_size"], config["num_attention_heads"], config["moe_intermediate_size"]
    q, l, u = config["q_lora_rank"], config["kv_lora_rank"], config["qk_rope_head_dim"]
    d, w = config["qk_nope_head_dim"] + u, config["v_head_dim"]
    f, shared = config["intermediate_size"], m * config["n_shared_experts"]
    count, chosen = config["n_routed_experts"], config["num_experts_per_tok"]
    rows = -(-tokens * chosen // count) * count / tokens
    attention = [Saved("input of the layer", 2 * h, 2 * h), Saved("output of its norm", 2 * h, 0),
                 Saved("latent of queries", 2 * q, 2 * q), Saved("output of its norm (queries)", 2 * q, 0),
                 Saved("latent of keys, rotary part", 2 * (l + u), 2 * l), Saved("output of its norm (keys)", 2 * l, 0),
                 Saved("queries", 2 * a * d, 2 * a * d), Saved("keys", 2 * a * d, 2 * a * d),
                 Saved("values", 2 * a * w, 2 * a * w),
                 Saved("output of attention", 2 * a * w, 2 * a * w), Saved("sums of attention's rows", 4 * a, 4 * a),
                 Saved("sum behind attention", 2 * h, 2 * h), Saved("output of its norm (MLP)", 2 * h, 0)]
    dense = [Saved("gate and up", 4 * f, 4 * f), Saved("their product", 2 * f, 0)]
    experts = [Saved("router's logits", 0, 2 * count), Saved("choices, and those kept", 0, 8 * chosen),
               Saved("rows that experts read", 2 * h * rows, 0), Saved("gate and up of experts", 4 * m * rows, 4 * m * rows),
               Saved("their product (experts)", 2 * m * rows, 0), Saved("weights of rows", 4 * rows, 4 * rows),
               Saved("gate and up of shared experts", 4 * shared, 4 * shared), Saved("their product (shared)", 2 * shared, 0)]
    weights = [(q, h), (a * d, q), (l + u, h), (a * (d - u + w), l), (h, a * w)]
    return Model(h, config["vocab_size"], [attention + dense, attention + experts],
                 [weights + [(2 * f, h), (h, f)], weights + [(2 * shared, h), (h, shared)]],
                 [(0, 2 * h + q + l), (0, 2 * h + q + l + count * h)],
                 [0] * config["first_k_dense_replace"] + [1] * (config["num_hidden_layers"] - config["first_k_dense_replace"]),
                 [(2 * m, h), (h, m)], count, rows, (2 * f, 4 * f, 2 * h))


def legacy_gpt(h, f, a, vocabulary, positions, layers):
    """Megatron-LM's own layer of 2023 without sequence parallelism, with flash attention, swiglu, biases and dropout: what each
    operation of PyTorch keeps. Attention's operands and result are copied to another order."""
    saved = [Saved("input of the layer", 2 * h, 2 * h, True), Saved("output of its norm", 2 * h, 0, True),
             Saved("queries, keys, values", 6 * h, 6 * h), Saved("output of attention", 2 * h, 2 * h),
             Saved("its copy in the order of the product behind", 2 * h, 0), Saved("sums of attention's rows", 4 * a, 4 * a),
             Saved("mask of dropout", h, 0, True), Saved("sum behind attention", 2 * h, 2 * h, True),
             Saved("output of its norm (MLP)", 2 * h, 0, True), Saved("gate and up", 4 * f, 4 * f), Saved("silu", 2 * f, 0),
             Saved("their product", 2 * f, 0), Saved("mask of dropout (MLP)", h, 0, True)]
    return Model(h, vocabulary, [saved], [[(3 * h, h), (h, h), (2 * f, h), (h, f)]], [(3 * h + 2 * f, 6 * h)], [0] * layers,
                 table_rows=positions, is_tied=True, norm=2 * h)


@dataclasses.dataclass(frozen=True)
class Rank:
    """A rank of a stage. tokens: of a microbatch on it, after context parallelism; replicas: ranks that share out a dense
    parameter's state."""
    model: Model
    begin: int
    end: int
    is_last: bool
    tokens: int
    tensor_ranks: int
    replicas: int
    in_flight: int
    expert_ranks: int = 1
    expert_replicas: int = 1
    is_legacy: bool = False

    def kinds(self):
        return self.model.layers[self.begin:self.end]

    def saved(self, side):
        """Bytes that the stage's layers keep of a microbatch."""
        return sum(one.bytes(side, self.tensor_ranks) for kind in self.kinds() for one in self.model.kinds[kind]) * self.tokens

    def saved_in_flight(self):
        return self.saved("megatron") * self.in_flight

    def expert_parameters(self):
        experts = sum(rows * columns for rows, columns in self.model.experts) * self.model.expert_count // self.expert_ranks
        return experts * sum(1 for kind in self.kinds() if kind == 1)

    def parameters(self):
        model, t = self.model, self.tensor_ranks
        count = self.expert_parameters()
        for kind in self.kinds():
            divided, whole = model.vectors[kind]
            count += (sum(rows * columns for rows, columns in model.weights[kind]) + divided) // t + whole
        ends = (self.begin == 0) + (self.is_last and not (model.is_tied and self.begin == 0))
        count += ends * model.vocabulary * model.hidden // t + (model.table_rows * model.hidden if self.begin == 0 else 0)
        return count + ((model.norm or model.hidden) if self.is_last else 0)

    def state(self):
        """Values of bf16, gradients of f32, and what the update keeps."""
        parameters, experts = self.parameters(), self.expert_parameters()
        return {"values": 2 * parameters, "gradients": 4 * parameters,
                "update": UPDATE * ((parameters - experts) / self.replicas + experts / self.expert_replicas)}

    def dummies(self):
        """Transformer Engine gives autograd a tensor of each weight's size in the place of a gradient, one for each shape, which
        stays; the gradient itself was added to Megatron-LM's buffer."""
        shapes = {shape for kind in self.kinds() for shape in self.model.weights[kind]}
        halves = sum(rows * columns for rows, columns in shapes) / self.tensor_ranks
        halves += sum(rows * columns for rows, columns in self.model.experts) if 1 in self.kinds() else 0
        halves += self.model.vocabulary * self.model.hidden / self.tensor_ranks if self.is_last else 0
        return 2 * halves

    def workspaces(self):
        grouped = GROUPED_STREAMS if 1 in self.kinds() and self.model.experts else 0
        torch = 1 if self.is_last or grouped else 0  # its own products: the head and the router
        return CUBLAS * (1 + grouped + torch)

    def moments(self):
        """Tensors beside state and saved ones, at each moment that can be the largest."""
        t, n, h = self.tensor_ranks, self.tokens, self.model.hidden
        gathered = 2 * h * n if t > 1 else 0
        if self.is_last:
            yield {"norm before the head and its output": 4 * h * n / t,
                   "logits, then their gradient": 2 * self.model.vocabulary * n / t, "gathered operand of the head": gathered,
                   "gradient of that operand": 2 * h * n + (2 * h * n / t if t > 1 else 0)}
        gathered = gathered if self.is_last else 0  # a buffer that stays
        if self.model.rows and self.kinds()[-1] == 1:
            yield {"rows permuted, exchanged, of the experts, put back": 4 * 2 * h * self.model.rows * n,
                   "output of shared experts": 2 * h * n, "gathered operand of the head": gathered}
        else:
            product, both, residual = self.model.function
            yield {"gradients of the last layer's product, gate and up, and sum": (product + both + residual) * n / t,
                   "that product, which is freed": -product * n / t, "gathered operand of the head": gathered}

    def legacy_moment(self):
        h, n = self.model.hidden, self.tokens
        logits = 10 * self.model.vocabulary * n / self.tensor_ranks
        return {"embedding's output and mask": 3 * h * n * self.in_flight if self.begin == 0 else 0,
                "logits in bf16, in f32, and their softmax": logits if self.is_last else 0}

    def terms(self):
        """Bytes by name; their sum is the peak."""
        return {name: count for name, count in self.all_terms().items() if count}

    def all_terms(self):
        kept = {"saved by layers": self.saved_in_flight()}
        if self.is_legacy:
            return self.state() | kept | self.legacy_moment()
        moment = max(self.moments(), key=lambda parts: sum(parts.values()))
        beside = {"stand-ins of weights' gradients": self.dummies(), "workspaces of cuBLAS": self.workspaces()}
        return self.state() | kept | beside | moment


def figure1():
    """Figure 1 of arXiv 2205.05198 by its formulas, exactly: models, and GiB of parameters and states (12 h^2 L parameters of
    18 bytes over all ranks), of activations without and with sequence parallelism and selective recomputation (L layers
    whatever the stages)."""
    s, t = 2048, 8
    for name, (h, layers, a, p, b, chunks) in {"22B": (6144, 48, 64, 1, 4, 1), "175B": (12288, 96, 96, 8, 1, 3),
                                               "530B": (20480, 105, 128, 35, 1, 3), "1T": (25600, 128, 160, 64, 1, 1)}.items():
        interleaved = 1 + Fraction(p - 1, p * chunks) if chunks > 1 else 1
        elements = s * b * h * layers * interleaved
        plain, selective = 10 + Fraction(24, t) + Fraction(5 * a * s, h * t), Fraction(34, t)
        yield name, [part / GIB for part in (Fraction(12 * h * h * layers * 18, t * p), elements * plain, elements * selective)]
