#!/usr/bin/python3
"""Exported weights of a small GPT, in a forward pass written in numpy, give the loss that the job reported.

The job runs as a pipeline of two workers; the head shares the embedding's table across both. Nothing
of Sangam's own code is used to read the weights or to compute.
"""

import json
import os
import random
import struct
import subprocess
import tempfile

import numpy

DEADLINE_S = 300
POSITIONS, WIDTH, HEADS = 24, 32, 4
BLOCKS = {"t0": False, "t1": True}  # whether it turns queries and keys by their position

JOB = """
name: "gpt" seed: 3
model {
  input_shape: [%d]
  block { name: "embed" layer { embedding { vocabulary: 256 width: %d } } layer { position_embedding {} } }
  block { name: "t0" layer { transformer { heads: %d } } }
  block { name: "t1" layer { transformer { heads: %d rotary: true } } }
  block { name: "head" layer { rms_norm {} } layer { tied_head { block: "embed" } } }
}
loss { token_cross_entropy {} }
data { text { train: "train.txt" test: "test.txt" } }
optimizer { learning_rate: 0.003 adamw {} }
batch { size: 8 micro_batches: 4 shares: 2 }
epochs: 2
strategy: MODEL_PARALLEL
resources { workers: 2 }
""" % (POSITIONS, WIDTH, HEADS, HEADS)


def write_text(path, seed, size):
    generator = random.Random(seed)
    words = ["river", "meets", "the", "sea", "where", "water", "runs", "slowly"]
    text = " ".join(generator.choice(words) for _ in range(size))
    with open(path, "w") as file:
        file.write(text[:size])


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", entry
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(data[begin:end], dtype="<f4")
        tensors[name] = values.reshape(entry["shape"]).astype(numpy.float64)
    return tensors


def rms_norm(x, gain):
    return gain * x / numpy.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def gelu(x):
    erf = numpy.vectorize(__import__("math").erf)
    return 0.5 * x * (1.0 + erf(x / numpy.sqrt(2.0)))


def rotate(x):
    """x: [positions, heads, head width]; pairs of neighbours turn by t * 10000^(-2i / head width)."""
    positions, _, width = x.shape
    angle = numpy.arange(positions)[:, None] * 10000.0 ** (-numpy.arange(0, width, 2) / width)[None, :]
    cos, sin = numpy.cos(angle)[:, None, :], numpy.sin(angle)[:, None, :]
    turned = numpy.empty_like(x)
    turned[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    turned[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return turned


def attention(x, weights, prefix, rotary):
    qkv = x @ weights[prefix + ".qkv.weight"].T + weights[prefix + ".qkv.bias"]
    q, k, v = (part.reshape(POSITIONS, HEADS, WIDTH // HEADS) for part in numpy.split(qkv, 3, axis=-1))
    if rotary:
        q, k = rotate(q), rotate(k)
    scores = numpy.einsum("thc,uhc->htu", q, k) / numpy.sqrt(WIDTH // HEADS)
    scores = numpy.where(numpy.tril(numpy.ones((POSITIONS, POSITIONS), dtype=bool)), scores, -numpy.inf)
    scores = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
    scores /= scores.sum(axis=-1, keepdims=True)
    heads = numpy.einsum("htu,uhc->thc", scores, v).reshape(POSITIONS, WIDTH)
    return heads @ weights[prefix + ".out.weight"].T + weights[prefix + ".out.bias"]


def logits(tokens, weights):
    x = weights["embed.0.weight"][tokens] + weights["embed.1.weight"]
    for block, rotary in BLOCKS.items():
        x = x + attention(rms_norm(x, weights[block + ".0.0.gain"]), weights, block + ".0.1", rotary)
        hidden = rms_norm(x, weights[block + ".1.0.gain"]) @ weights[block + ".1.1.weight"].T
        hidden = gelu(hidden + weights[block + ".1.1.bias"])
        x = x + hidden @ weights[block + ".1.3.weight"].T + weights[block + ".1.3.bias"]
    return rms_norm(x, weights["head.0.gain"]) @ weights["embed.0.weight"].T


def loss_and_accuracy(data, weights):
    """Mean over all bytes of the test text: nats per byte, and the part that was foreseen."""
    total, hits, terms = 0.0, 0, 0
    for first in range(0, len(data) - POSITIONS, POSITIONS):
        tokens = data[first:first + POSITIONS]
        labels = data[first + 1:first + POSITIONS + 1]
        found = logits(tokens, weights)
        peak = found.max(axis=-1, keepdims=True)
        normaliser = (peak + numpy.log(numpy.exp(found - peak).sum(axis=-1, keepdims=True)))[:, 0]
        total += (normaliser - found[numpy.arange(POSITIONS), labels]).sum()
        hits += (found.argmax(axis=-1) == labels).sum()
        terms += POSITIONS
    return total / terms, hits / terms


def main():
    with tempfile.TemporaryDirectory() as folder:
        write_text(os.path.join(folder, "train.txt"), 1, 3000)
        write_text(os.path.join(folder, "test.txt"), 2, 700)
        job = os.path.join(folder, "job.textproto")
        with open(job, "w") as file:
            file.write(JOB)
        out = os.path.join(folder, "out")
        run = subprocess.run(["client/sangam", "run", job, "--data_root=" + folder, "--out=" + out, "--threads=1"],
                             capture_output=True, text=True, timeout=DEADLINE_S)
        assert run.returncode == 0, run.stdout + run.stderr
        weights = read_safetensors(os.path.join(out, "model.safetensors"))
        with open(os.path.join(out, "job.json")) as file:
            reported = json.load(file)["evaluation"][-1]
        with open(os.path.join(folder, "test.txt"), "rb") as file:
            data = numpy.frombuffer(file.read(), dtype=numpy.uint8).astype(int)
    assert len([name for name in weights if name.startswith("head")]) == 1, sorted(weights)
    loss, accuracy = loss_and_accuracy(data, weights)
    print("loss per byte: numpy %.6f, job %.6f; accuracy %.4f, %.4f" %
          (loss, reported["loss"], accuracy, reported["accuracy"]))
    assert abs(loss - reported["loss"]) < 2e-5 * loss, (loss, reported)
    assert abs(accuracy - reported["accuracy"]) < 1e-9, (accuracy, reported)
    assert loss < 0.9 * numpy.log(256), "the weights have learned nothing"
    # The comparison can fail: other weights in one layer are seen.
    weights["t1.0.1.out.weight"] *= 1.5
    assert abs(loss_and_accuracy(data, weights)[0] - reported["loss"]) > 2e-5 * loss


if __name__ == "__main__":
    main()
