# Ops of transformers in numpy and float64, forward and backward, with rounding where a bf16 run of mgc may round: what each
# op stores, each partial sum that is reduced over ranks, its sum, and each sum of cotangents.
import math

import numpy

KEPT = 52 - 7  # bits of a float64's fraction that bf16 lacks
BEYOND = 2.0**128  # all that bf16 holds is smaller


def nearest(values):
    """Rounded to bf16, to nearest even: what parameters are."""
    bits = numpy.ascontiguousarray(values, numpy.float64).view(numpy.uint64)
    odd = bits >> numpy.uint64(KEPT) & numpy.uint64(1)
    return ((bits + numpy.uint64((1 << KEPT - 1) - 1) + odd) >> numpy.uint64(KEPT) << numpy.uint64(KEPT)).view(numpy.float64)


class Rounding:
    """A function of a number and a seed. Its error is uniform within half a unit of bf16's last place and independent
    from number to number, as rounding to nearest is taken to be; equal numbers have equal errors, as they have in a
    run, and what bf16 holds exactly has none."""

    def __init__(self, seed):
        self.key = numpy.uint64(numpy.random.default_rng(seed).integers(1, 2**63))

    def __call__(self, values):
        values = numpy.ascontiguousarray(values, numpy.float64)
        bits = values.view(numpy.uint64)
        mixed = bits + numpy.uint64(1 << 15)
        mixed >>= numpy.uint64(16)  # the last bits depend on how numpy sums, not on the number
        mixed ^= self.key
        mixed *= numpy.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> numpy.uint64(32)
        mixed *= numpy.uint64(0xBF58476D1CE4E5B9)
        mixed >>= numpy.uint64(12)
        mixed |= numpy.uint64(0x3FF << 52)
        error = mixed.view(numpy.float64) - 1.5
        # Values outside bf16's range stay: masks' least numbers.
        with numpy.errstate(invalid="ignore", over="ignore"):
            error *= (bits & numpy.uint64(0x7FF << 52)).view(numpy.float64) * 2.0**-7
            error *= bits & numpy.uint64((1 << KEPT) - 1) != 0
            rounded = values + error
        return numpy.where(numpy.abs(values) < BEYOND, rounded, values)


class Value:
    """An activation, and the cotangents of its uses. wide: it and its cotangent are f32, which is as good as exact here."""

    def __init__(self, data, wide=False):
        self.data, self.uses, self.wide = data, [], wide


class Pass:
    """One forward and backward of a model on some sequences. `rounded`: a function of arrays; `parts`: ranks that a split
    dimension is summed over; `groups`: equal parts of the sequences whose gradients are made one after another;
    add(name, gradients of the groups) is called for each use of a parameter, from the last on."""

    def __init__(self, weights, rounded, parts, groups, add):
        self.weights, self.rounded, self.parts, self.groups, self.add = weights, rounded, parts, groups, add
        self.tape, self.fp32_residual = [], False

    # --- sums, which are f32 in a run: that is as good as exact here ------------------------------------------

    multiply = staticmethod(numpy.matmul)

    @staticmethod
    def mean(x):
        return x.mean(-1, keepdims=True)

    def record(self, data, backward, wide=False):
        """The value of an op; backward is given its whole cotangent."""
        value = Value(data, wide)
        self.tape.append((value, backward))
        return value

    def backward(self):
        for value, backward in reversed(self.tape):
            cotangent = sum(value.uses)
            backward(self.rounded(cotangent) if len(value.uses) > 1 and not value.wide else cotangent)

    def use(self, value, cotangent):
        value.uses.append(cotangent if value.wide else self.rounded(cotangent))

    def reduced(self, a, b, split):
        """a b, its partial sums over the ranks that split what is summed over."""
        if not split or self.parts == 1:
            return self.rounded(self.multiply(a, b))
        cuts = numpy.array_split(numpy.arange(b.shape[0]), self.parts)
        return self.rounded(sum(self.rounded(self.multiply(a[..., cut], b[cut])) for cut in cuts))

    def rows(self, x):
        return x.reshape(self.groups, -1, x.shape[-1])

    # --- ops ---------------------------------------------------------------------------------------------

    def residual(self, x):
        """The residual stream that begins with x."""
        return self.record(x.data, lambda dy: self.use(x, dy), True) if self.fp32_residual else x

    def read(self, x):
        """The operand of a matrix product that reads x."""
        return self.record(self.rounded(x.data), lambda dy: self.use(x, dy)) if x.wide else x

    def embed(self, name, index):
        def backward(dy):
            gradients = numpy.zeros((self.groups, *self.weights[name].shape))
            group = numpy.arange(len(index)) * self.groups // len(index)
            numpy.add.at(gradients, (group[:, None], index), dy)
            self.add(name, gradients)

        return self.record(self.weights[name][index], backward)

    def product(self, x, names, split, transposed):
        """x times the parameters joined, a list of results. split: "in" or "out", the dimension over tensor ranks."""
        parameters = [self.weights[name].T if transposed else self.weights[name] for name in names]
        joined, ends = numpy.concatenate(parameters, 1), numpy.cumsum([p.shape[1] for p in parameters])[:-1]

        def backward(dy):
            self.use(x, self.reduced(dy, joined.T, split == "out"))
            gradients = self.rows(x.data).swapaxes(1, 2) @ self.rows(dy)
            for name, part in zip(names, numpy.split(gradients, ends, 2)):
                self.add(name, part.swapaxes(1, 2) if transposed else part)

        y = self.record(self.reduced(x.data, joined, split == "in"), backward)
        return self.split(y, ends) if len(names) > 1 else [y]

    def split(self, x, ends):
        """Parts of the last dimension; their cotangents are written where the whole one lies."""
        parts = [Value(part) for part in numpy.split(x.data, ends, -1)]
        joined = self.record(None, lambda _: x.uses.append(numpy.concatenate([sum(part.uses) for part in parts], -1)))
        joined.uses.append(0.0)
        return parts

    def bias(self, x, name):
        def backward(dy):
            self.use(x, dy)
            self.add(name, self.rows(dy).sum(1))

        return self.record(self.rounded(x.data + self.weights[name]), backward) if name in self.weights else x

    def sum(self, x, *others):
        """The sum, in the type of x."""
        total = sum((y.data for y in others), x.data)
        return self.record(total if x.wide else self.rounded(total), lambda dz: [self.use(y, dz) for y in (x, *others)], x.wide)

    def norm(self, x, name, epsilon, wide=False):
        """Layer norm where it has a bias, else RMS norm; over the last dimension. wide: so is the result."""
        weight, bias = self.weights[name + ".weight"], self.weights.get(name + ".bias")
        centred = x.data - self.mean(x.data) if bias is not None else x.data
        scale = 1 / numpy.sqrt(self.mean(centred**2) + epsilon)
        unit = centred * scale

        def backward(dy):
            d = dy * weight
            inner = d - unit * self.mean(d * unit)
            self.use(x, scale * (inner - self.mean(d) if bias is not None else inner))
            self.add(name + ".weight", self.rows(dy * unit).sum(1))
            if bias is not None:
                self.add(name + ".bias", self.rows(dy).sum(1))

        y = unit * weight + (0 if bias is None else bias)
        return self.record(y if wide else self.rounded(y), backward, wide)

    def heads(self, x, count):
        """[b, s, count d] as [b, s, count, d]"""
        return self.record(x.data.reshape(*x.data.shape[:2], count, -1), lambda dy: x.uses.append(dy.reshape(x.data.shape)))

    def rotate(self, x, angles):
        cos, sin = numpy.cos(angles)[..., None, :], numpy.sin(angles)[..., None, :]
        half = x.data.shape[-1] // 2
        turn = lambda v, sign: numpy.concatenate([v[..., :half] * cos - sign * v[..., half:] * sin,
                                                  v[..., half:] * cos + sign * v[..., :half] * sin], -1)
        return self.record(self.rounded(turn(x.data, 1)), lambda dy: self.use(x, turn(dy, -1)))

    def attention(self, q, k, v, positions, keys=None):
        """[b, s, heads, d], causal in the documents that begin at position 0, or to the `keys` [b, s] that are not 0; sums are
        not rounded, dk and dv are summed over the ranks of a group. A library may round probabilities, their gradients
        before products, each head's dk and dv before their sum."""
        groups, s, d = k.data.shape[2], q.data.shape[1], q.data.shape[-1]
        grouped = q.data.reshape(*q.data.shape[:2], groups, -1, d)
        scores = numpy.einsum("bsgrd,btgd->bgrst", grouped, k.data) / math.sqrt(d)
        document = numpy.cumsum(positions == 0, axis=1)
        visible = numpy.tril(numpy.ones((s, s), bool)) & (document[:, :, None] == document[:, None, :])
        visible = visible if keys is None else numpy.broadcast_to(keys[:, None, :] != 0, visible.shape)
        scores = numpy.where(visible[:, None, None], scores, -numpy.inf)
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        stored = self.rounded(weights)
        o = numpy.einsum("bgrst,btgd->bsgrd", stored, v.data)

        def over_ranks(per_head):  # [b, t, g, r, d]
            per_head = self.rounded(per_head)
            ranks = numpy.array_split(per_head, max(1, min(per_head.shape[3], self.parts // groups)), 3)
            total = sum(self.rounded(part.sum(3)) for part in ranks)
            return self.rounded(total) if len(ranks) > 1 else total

        def backward(do):
            do = do.reshape(o.shape)
            dweights = numpy.einsum("bsgrd,btgd->bgrst", do, v.data)
            dscores = weights * (dweights - (do * o).sum(-1).transpose(0, 2, 3, 1)[..., None]) / math.sqrt(d)
            dscores = self.rounded(dscores)
            self.use(q, numpy.einsum("bgrst,btgd->bsgrd", dscores, k.data).reshape(q.data.shape))
            k.uses.append(over_ranks(numpy.einsum("bgrst,bsgrd->btgrd", dscores, grouped)))
            v.uses.append(over_ranks(numpy.einsum("bgrst,bsgrd->btgrd", stored, do)))

        return self.record(self.rounded(o).reshape(*q.data.shape[:2], -1), backward)

    def gelu(self, x):
        inner = math.sqrt(2 / math.pi) * (x.data + 0.044715 * x.data**3)
        t = numpy.tanh(inner)
        slope = 0.5 * (1 + t) + 0.5 * x.data * (1 - t**2) * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x.data**2)
        return self.record(self.rounded(0.5 * x.data * (1 + t)), lambda dy: self.use(x, dy * slope))

    def gelu_erf(self, x):
        below = 0.5 * (1 + numpy.vectorize(math.erf)(x.data / math.sqrt(2)))
        slope = below + x.data * numpy.exp(-0.5 * x.data**2) / math.sqrt(2 * math.pi)
        return self.record(self.rounded(x.data * below), lambda dy: self.use(x, dy * slope))

    def route(self, logits, chosen):
        """The softmax over the largest `chosen` of the logits, zeros elsewhere: f32."""
        least = numpy.sort(logits.data, -1)[..., -chosen][..., None]
        exp = numpy.where(logits.data >= least, numpy.exp(logits.data - logits.data.max(-1, keepdims=True)), 0)
        weights = exp / exp.sum(-1, keepdims=True)
        return self.record(weights, lambda dw: self.use(logits, weights * (dw - (weights * dw).sum(-1, keepdims=True))), True)

    def weighted(self, x, weights, expert):
        """x [.., m] times the weights [.., e] of an expert."""
        weight = weights.data[..., expert : expert + 1]

        def backward(dy):
            self.use(x, dy * weight)
            own = numpy.zeros(weights.data.shape)
            own[..., expert] = self.rounded(dy * x.data).sum(-1)
            self.use(weights, own)

        return self.record(self.rounded(x.data * weight), backward)

    def gated(self, gate, up):
        sigmoid = 1 / (1 + numpy.exp(-gate.data))
        silu = self.rounded(gate.data * sigmoid)

        def backward(dy):
            self.use(gate, self.rounded(dy * up.data) * sigmoid * (1 + gate.data * (1 - sigmoid)))
            self.use(up, dy * silu)

        return self.record(self.rounded(silu * up.data), backward)

    def loss(self, logits, labels):
        """The sum over the tokens that count; starts backward."""
        shifted = logits.data - logits.data.max(-1, keepdims=True)
        exp = numpy.exp(shifted)
        counts = labels >= 0
        at = numpy.maximum(labels, 0)[..., None]
        losses = numpy.log(exp.sum(-1)) - numpy.take_along_axis(shifted, at, -1)[..., 0]
        gradient = exp / exp.sum(-1, keepdims=True)
        numpy.put_along_axis(gradient, at, numpy.take_along_axis(gradient, at, -1) - 1, -1)
        self.use(logits, gradient * counts[..., None])
        self.backward()
        return (losses * counts).sum()
