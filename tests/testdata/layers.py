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
    t, c = x.shape[1], x.shape[2]
    qkv_w, qkv_b, out_w, out_b = p.take(3 * c, c), p.take(3 * c), p.take(c, c), p.take(c)
    mask = torch.full((t, t), float("-inf"), dtype=torch.double).triu(1)
    x = x.transpose(0, 1)
    y, _ = F.multi_head_attention_forward(x, x, x, c, heads, qkv_w, qkv_b, None, None, False, 0.0, out_w,
                                          out_b, attn_mask=mask, need_weights=False)
    return y.transpose(0, 1)


# name, layers as a job says them, shape of a sample, parameters, samples, function
CASES = []


def case(name, layers, shape, parameters, rows, function):
    CASES.append((name, layers, shape, parameters, rows, function))


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

LOSSES = [
    ("softmax_cross_entropy", lambda o, t: F.cross_entropy(o, t.argmax(1), reduction="sum")),
    ("mean_squared_error", lambda o, t: F.mse_loss(o, t, reduction="sum")),
    ("binary_cross_entropy", lambda o, t: F.binary_cross_entropy_with_logits(o, t, reduction="sum")),
]


def show(name, values):
    print(name, " ".join("%.9g" % value for value in values.reshape(-1).tolist()))


def main():
    print("# Written by layers.py with PyTorch", torch.__version__)
    for name, layers, shape, parameters, rows, function in CASES:
        x = draw(rows, *shape).requires_grad_()
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
        show("x", x)
        show("w", w)
        show("dy", dy)
        show("y", y)
        show("dx", x.grad)
        show("dw", w.grad if w.grad is not None else torch.zeros(parameters))
        show("after", p.after)
        show("evaluated", function(x, Segment(w), False))
    for name, function in LOSSES:
        outputs = (4 * draw(5, 4)).requires_grad_()
        targets = torch.softmax(3 * draw(5, 4), 1) if "squared" not in name else 2 * draw(5, 4)
        targets = targets.float().double()
        loss = function(outputs, targets)
        loss.backward()
        print("loss", name)
        show("outputs", outputs)
        show("targets", targets)
        show("labels", targets.argmax(1))
        show("sum", loss)
        show("gradient", outputs.grad)


main()
