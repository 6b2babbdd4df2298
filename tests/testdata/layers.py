#!/usr/bin/env python3
"""Writes layers.txt: what PyTorch computes for each layer, forward and backward.

    python3 tests/testdata/layers.py > tests/testdata/layers.txt

Images are [height, width, channels] here and [channels, height, width] in PyTorch. Everything is computed
in double precision from inputs that are exact in binary32. Each case is a block: its model's text, the number
of samples and lines of numbers:

    x, w, dy   inputs: samples, the block's segment, gradient of the output
    y, dx, dw  results of training; dw is 0 for running statistics
    after      the segment with the running statistics as they are after this one step
    evaluated  the output in evaluation, with the segment `w`
    address    seed, step and position of the first sample, where dropout draws

Tokens have no dx. A "tied" is two blocks, the second one with the first one's table: `w` is the first
one's segment, `own` the second one's, `dw` the first one's gradient of its segment, `dtied` the second
one's. A "loss" has the number of its terms for each sample, and what it counts as correct.
"""

import torch
import torch.nn.functional as F

torch.manual_seed(1)


def draw(*shape):
    return (torch.rand(shape) * 2 - 1).double()


class Segment:
    """Hands out the parameters of a block, in the order of its layout."""

    def __init__(self, values):
        self.values = values
        self.after = values.detach().clone()
        self.offset = 0

    def take(self, *shape):
        count = int(torch.tensor(shape).prod())
        part = self.values[self.offset:self.offset + count].view(*shape)
        self.offset += count
        return part

    def take_running(self, count):
        part = self.after[self.offset:self.offset + count]
        self.offset += count
        return part


# What dropout draws: Philox4x32-10 (Salmon et al. 2011) at an address, as common/base/philox.h says.


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def words(number):
    return [number & 0xFFFFFFFF, number >> 32]


# Seed, step, position of the first sample: more than 32 bits where there may be more.
ADDRESS = ((5 << 32) + 21, (3 << 32) + 1000, 33)
FOR_DROPOUT = 3


def dropout(x, rate, layer, training):
    if not training:
        return x
    seed, step, first = ADDRESS
    factors = torch.zeros(x.shape, dtype=torch.double)
    for row in range(x.shape[0]):
        at_step = philox(words(step) + [FOR_DROPOUT, 0], words(seed))
        at_row = philox(words(layer << 32 | first + row) + at_step[2:], at_step[:2])
        flat = factors[row].view(-1)
        for element in range(len(flat)):
            number = philox(words(element // 4) + at_row[2:], at_row[:2])[element % 4]
            kept = (number >> 8) / 2**24 >= rate
            flat[element] = 1 / (1 - rate) if kept else 0
    return x * factors


def linear(x, p, out, bias=True):
    w = p.take(out, x.shape[-1])
    return F.linear(x, w, p.take(out) if bias else None)


def to_torch(x):
    return x.permute(0, 3, 1, 2)


def from_torch(x):
    return x.permute(0, 2, 3, 1)


def conv2d(x, p, out, kh, kw, stride=1, padding=0, bias=True):
    w = p.take(out, kh, kw, x.shape[-1]).permute(0, 3, 1, 2)
    b = p.take(out) if bias else None
    return from_torch(F.conv2d(to_torch(x), w, b, stride=stride, padding=padding))


def max_pool2d(x, *arguments):
    return from_torch(F.max_pool2d(to_torch(x), *arguments))


def average_pool2d(x, *arguments):
    return from_torch(F.avg_pool2d(to_torch(x), *arguments))


def batch_norm(x, p, training, epsilon, momentum):
    c = x.shape[-1]
    gain, bias = p.take(c), p.take(c)
    mean, variance = p.take_running(c), p.take_running(c)
    y = F.batch_norm(x.reshape(-1, c), mean, variance, gain, bias, training, momentum, epsilon)
    return y.view(x.shape)


def layer_norm(x, p, epsilon):
    c = x.shape[-1]
    return F.layer_norm(x, (c,), p.take(c), p.take(c), epsilon)


def rms_norm(x, p, epsilon):
    return p.take(x.shape[-1]) * x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon)


def attention(x, p, heads):
    c = x.shape[2]
    qkv_w, qkv_b, out_w, out_b = p.take(3 * c, c), p.take(3 * c), p.take(c, c), p.take(c)
    x = x.transpose(0, 1)
    y, _ = F.multi_head_attention_forward(x, x, x, c, heads, qkv_w, qkv_b, None, None, False, 0.0, out_w,
                                          out_b, attn_mask=no_later(x.shape[0]), need_weights=False)
    return y.transpose(0, 1)


def no_later(t):
    return torch.full((t, t), float("-inf"), dtype=torch.double).triu(1)


def rotate(x, base):
    """x: [samples, heads, positions, width]; pairs of neighbours are complex numbers."""
    t, width = x.shape[2], x.shape[3]
    frequencies = base ** (-torch.arange(0, width, 2, dtype=torch.double) / width)
    angles = torch.outer(torch.arange(t, dtype=torch.double), frequencies)
    turned = torch.view_as_complex(x.reshape(*x.shape[:3], -1, 2)) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned).reshape(x.shape)


def rotary_attention(x, p, heads, base, bias=True):
    n, t, c = x.shape
    qkv = linear(x, p, 3 * c, bias).view(n, t, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
    q, k, v = rotate(qkv[0], base), rotate(qkv[1], base), qkv[2]
    scores = q @ k.transpose(2, 3) / (c // heads) ** 0.5 + no_later(t)
    y = torch.softmax(scores, -1) @ v
    return linear(y.transpose(1, 2).reshape(n, t, c), p, c, bias)


def embedding(x, p, vocabulary, width):
    return F.embedding(x, p.take(vocabulary, width))


# name, layers as a job says them, shape of a sample, parameters, samples, function, vocabulary of tokens
CASES = []


def case(name, layers, shape, parameters, rows, function, tokens=None):
    CASES.append((name, layers, shape, parameters, rows, function, tokens))


case("linear", "layer { linear { out_features: 3 } }", [4], 15, 3, lambda x, p, t: linear(x, p, 3))
case("linear relu of a sequence", "layer { linear { out_features: 3 } } layer { relu {} }", [2, 4], 15, 3,
     lambda x, p, t: F.relu(linear(x, p, 3)))
case("gelu", "layer { gelu {} }", [6], 0, 3, lambda x, p, t: F.gelu(x))
case("tanh", "layer { tanh {} }", [6], 0, 3, lambda x, p, t: torch.tanh(x))
case("sigmoid", "layer { sigmoid {} }", [6], 0, 3, lambda x, p, t: torch.sigmoid(x))
case("position_embedding", "layer { position_embedding {} }", [3, 2], 6, 3, lambda x, p, t: x + p.take(3, 2))
case("rms_norm", "layer { rms_norm { epsilon: 0.01 } }", [2, 5], 5, 3, lambda x, p, t: rms_norm(x, p, 0.01))
case("causal_attention", "layer { causal_attention { heads: 2 } }", [4, 4], 80, 2,
     lambda x, p, t: attention(x, p, 2))
case("conv2d", "layer { conv2d { out_channels: 3 kernel_height: 3 } }", [5, 4, 2], 57, 2,
     lambda x, p, t: conv2d(x, p, 3, 3, 3))
case("conv2d, stride and padding", "layer { conv2d { out_channels: 2 kernel_height: 3 stride: 2 padding: 1 } }",
     [6, 5, 2], 38, 2, lambda x, p, t: conv2d(x, p, 2, 3, 3, 2, 1))
case("conv2d, padding 2, relu",
     "layer { conv2d { out_channels: 2 kernel_height: 5 padding: 2 } } layer { relu {} }",
     [4, 4, 1], 52, 2, lambda x, p, t: F.relu(conv2d(x, p, 2, 5, 5, 1, 2)))
case("conv2d, a kernel that is not square, stride 3, no bias",
     "layer { conv2d { out_channels: 2 kernel_height: 2 kernel_width: 3 stride: 3 padding: 1 no_bias: true } }",
     [5, 7, 2], 24, 2, lambda x, p, t: conv2d(x, p, 2, 2, 3, 3, 1, False))
case("conv2d of single pixels", "layer { conv2d { out_channels: 4 kernel_height: 1 stride: 2 } }", [3, 4, 3], 16, 2,
     lambda x, p, t: conv2d(x, p, 4, 1, 1, 2))
case("max_pool2d", "layer { max_pool2d { kernel: 2 } }", [5, 4, 2], 0, 2, lambda x, p, t: max_pool2d(x, 2))
case("max_pool2d, overlapping", "layer { max_pool2d { kernel: 3 stride: 2 padding: 1 } }", [5, 4, 2], 0, 2,
     lambda x, p, t: max_pool2d(x, 3, 2, 1))
case("average_pool2d", "layer { average_pool2d { kernel: 2 } }", [5, 4, 2], 0, 2,
     lambda x, p, t: average_pool2d(x, 2))
case("average_pool2d, overlapping", "layer { average_pool2d { kernel: 3 stride: 2 padding: 1 } }", [5, 4, 2], 0, 2,
     lambda x, p, t: average_pool2d(x, 3, 2, 1))
case("average_pool2d over the image", "layer { average_pool2d {} }", [5, 4, 2], 0, 2,
     lambda x, p, t: x.mean((1, 2), keepdim=True))
case("batch_norm", "layer { batch_norm {} }", [3, 2, 3], 12, 4,
     lambda x, p, t: batch_norm(x, p, t, 1e-5, 0.1))
case("batch_norm of vectors", "layer { batch_norm { epsilon: 0.01 momentum: 0.25 } }", [5], 20, 6,
     lambda x, p, t: batch_norm(x, p, t, 0.01, 0.25))
case("layer_norm", "layer { layer_norm {} }", [3, 5], 10, 3, lambda x, p, t: layer_norm(x, p, 1e-5))
case("concat",
     "layer { concat { branch { layer { conv2d { out_channels: 2 kernel_height: 3 padding: 1 } } } branch {} "
     "branch { layer { max_pool2d { kernel: 3 stride: 1 padding: 1 } } } } }",
     [3, 4, 2], 38, 2,
     lambda x, p, t: torch.cat([conv2d(x, p, 2, 3, 3, 1, 1), x, max_pool2d(x, 3, 1, 1)], 3))
case("residual", "layer { residual { layer { linear { out_features: 4 } } layer { tanh {} } } }", [4], 20, 3,
     lambda x, p, t: x + torch.tanh(linear(x, p, 4)))


def residual_block(x, p, training):
    y = conv2d(x, p, 3, 3, 3, 2, 1, False)
    y = F.relu(batch_norm(y, p, training, 1e-5, 0.1))
    y = batch_norm(conv2d(y, p, 3, 3, 3, 1, 1, False), p, training, 1e-5, 0.1)
    s = batch_norm(conv2d(x, p, 3, 1, 1, 2, 0, False), p, training, 1e-5, 0.1)
    return F.relu(s + y)


case("residual with a shortcut",
     "layer { residual { "
     "layer { conv2d { out_channels: 3 kernel_height: 3 stride: 2 padding: 1 no_bias: true } } "
     "layer { batch_norm {} } layer { relu {} } "
     "layer { conv2d { out_channels: 3 kernel_height: 3 padding: 1 no_bias: true } } layer { batch_norm {} } "
     "shortcut { conv2d { out_channels: 3 kernel_height: 1 stride: 2 no_bias: true } } "
     "shortcut { batch_norm {} } } } layer { relu {} }",
     [4, 4, 2], 54 + 12 + 81 + 12 + 6 + 12, 3, residual_block)

case("relu", "layer { relu {} }", [6], 0, 3, lambda x, p, t: F.relu(x))
case("flatten of an image", "layer { flatten {} } layer { linear { out_features: 2 } }", [2, 3, 2], 26, 2,
     lambda x, p, t: linear(torch.flatten(x, 1), p, 2))
case("embedding", "layer { embedding { vocabulary: 5 width: 3 } }", [4], 15, 3,
     lambda x, p, t: embedding(x, p, 5, 3), tokens=5)
case("embedding with positions", "layer { embedding { vocabulary: 6 width: 2 } } layer { position_embedding {} }",
     [3], 12 + 6, 4, lambda x, p, t: embedding(x, p, 6, 2) + p.take(3, 2), tokens=6)
case("causal_attention, rotary", "layer { causal_attention { heads: 2 rotary: true } }", [5, 8], 288, 2,
     lambda x, p, t: rotary_attention(x, p, 2, 10000.0))
case("causal_attention, rotary with a base, no bias",
     "layer { causal_attention { heads: 1 rotary: true rotary_base: 100 no_bias: true } }", [4, 6], 144, 2,
     lambda x, p, t: rotary_attention(x, p, 1, 100.0, False))
case("dropout", "layer { dropout { rate: 0.25 } }", [2, 7], 0, 4, lambda x, p, t: dropout(x, 0.25, 0, t))
case("dropout between layers", "layer { tanh {} } layer { dropout { rate: 0.5 } } layer { linear { out_features: 3 } }",
     [9], 30, 4, lambda x, p, t: linear(dropout(torch.tanh(x), 0.5, 1, t), p, 3))


def transformer(x, p, training):
    # Layers are counted with those that hold them: 0 residual, 1 norm, 2 attention, 3 dropout, 4 residual, ...
    y = rms_norm(x, p, 1e-5)
    x = x + dropout(attention(y, p, 2), 0.25, 3, training)
    y = rms_norm(x, p, 1e-5)
    y = linear(F.gelu(linear(y, p, 6)), p, 4)
    return x + dropout(y, 0.25, 9, training)


case("transformer", "layer { transformer { heads: 2 hidden: 6 dropout: 0.25 } }", [3, 4], 4 + 80 + 4 + 30 + 28, 3,
     transformer)

# name, model, vocabulary, positions, samples, parameters of each block, functions of the two blocks
TIED = [
    ("tied_head",
     "input_shape: [3] block { name: \"in\" layer { embedding { vocabulary: 5 width: 2 } } layer { position_embedding {} } } "
     "block { layer { linear { out_features: 2 } } layer { tied_head { block: \"in\" } } }",
     5, 3, 4, 16, 6,
     lambda x, p: embedding(x, p, 5, 2) + p.take(3, 2),
     lambda y, p, tied: F.linear(linear(y, p, 2), tied.take(5, 2))),
    ("tied_head alone in its block",
     "input_shape: [2] block { name: \"in\" layer { embedding { vocabulary: 4 width: 3 } } layer { tanh {} } } "
     "block { layer { tied_head { block: \"in\" } } }",
     4, 2, 3, 12, 0,
     lambda x, p: torch.tanh(embedding(x, p, 4, 3)),
     lambda y, p, tied: F.linear(y, tied.take(4, 3))),
]


def sum_of_labels(o, t, classes):
    return F.cross_entropy(o.reshape(-1, classes), t.reshape(-1, classes).argmax(1), reduction="sum")


def right_labels(o, t, classes):
    return (o.reshape(-1, classes).argmax(1) == t.reshape(-1, classes).argmax(1)).sum()


# name, terms of a sample, outputs of a term, sum, terms that are right
LOSSES = [
    ("softmax_cross_entropy", 1, 4, lambda o, t: sum_of_labels(o, t, 4), lambda o, t: right_labels(o, t, 4)),
    ("mean_squared_error", 4, 1, lambda o, t: F.mse_loss(o, t, reduction="sum"), lambda o, t: torch.tensor(0)),
    ("binary_cross_entropy", 4, 1, lambda o, t: F.binary_cross_entropy_with_logits(o, t, reduction="sum"),
     lambda o, t: ((o > 0) == (t >= 0.5)).sum()),
    ("token_cross_entropy", 3, 4, lambda o, t: sum_of_labels(o, t, 4), lambda o, t: right_labels(o, t, 4)),
]


def show(name, values):
    print(name, " ".join("%.9g" % value for value in values.reshape(-1).tolist()))


def draw_tokens(rows, shape, vocabulary):
    return torch.randint(vocabulary, (rows, *shape))


def show_case(name, layers, shape, parameters, rows, function, tokens):
    x = draw_tokens(rows, shape, tokens) if tokens else draw(rows, *shape).requires_grad_()
    # Above 0, for variances.
    w = ((draw(parameters) + 1.5) / 2).float().double().requires_grad_()
    if "batch_norm" not in layers:
        w = draw(parameters).requires_grad_()
    p = Segment(w)
    y = function(x, p, True)
    assert p.offset == parameters, name
    dy = draw(*y.shape)
    y.backward(dy)
    print("case", name)
    print("model input_shape: %s block { %s }" % (shape, layers))
    print("rows", rows)
    if "dropout" in layers or "transformer" in layers:
        print("address", *ADDRESS)
    show("x", x)
    show("w", w)
    show("dy", dy)
    show("y", y)
    if not tokens:
        show("dx", x.grad)
    show("dw", w.grad if w.grad is not None else torch.zeros(parameters))
    show("after", p.after)
    show("evaluated", function(x, Segment(w), False))


def show_tied(name, model, vocabulary, positions, rows, first, second, function, head):
    x = draw_tokens(rows, [positions], vocabulary)
    # The same values twice, so that each use has a gradient of its own.
    w = draw(first).requires_grad_()
    tied = w.detach().clone().requires_grad_()
    own = draw(second).requires_grad_()
    p, tied_p, own_p = Segment(w), Segment(tied), Segment(own)
    y = head(function(x, p), own_p, tied_p)
    assert (p.offset, own_p.offset) == (first, second), name
    dy = draw(*y.shape)
    y.backward(dy)
    print("tied", name)
    print("model", model)
    print("rows", rows)
    show("x", x)
    show("w", w)
    show("own", own)
    show("dy", dy)
    show("y", y)
    show("dw", w.grad)
    show("dtied", tied.grad)
    show("down", own.grad if own.grad is not None else own)


def show_loss(name, terms, classes, function, right):
    outputs = (4 * draw(5, terms * classes)).requires_grad_()
    targets = torch.softmax(3 * draw(5, terms * classes), 1) if "squared" not in name else 2 * draw(5, terms)
    targets = targets.float().double()
    loss = function(outputs, targets)
    loss.backward()
    print("loss", name)
    print("terms", terms)
    show("outputs", outputs)
    show("targets", targets)
    if classes > 1:
        show("labels", targets.reshape(-1, classes).argmax(1))
    show("sum", loss)
    show("correct", right(outputs, targets))
    show("gradient", outputs.grad)


def main():
    print("# Written by layers.py with PyTorch", torch.__version__)
    for each in CASES:
        show_case(*each)
    for each in TIED:
        show_tied(*each)
    for each in LOSSES:
        show_loss(*each)


main()
