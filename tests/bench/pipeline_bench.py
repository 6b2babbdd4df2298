#!/usr/bin/python3
"""Throughput of a two-stage pipeline against its bound, under each schedule.

Real daemons on this machine, one compute thread each, the same job in turns: one worker, two jobs of
one worker at once, then two stages under each schedule. The bound of a pipeline
of p balanced stages with M micro-batches is p x (one worker) x M / (M + p - 1). Two cores of one
machine share caches, memory and power, so two workers that have nothing to do with one another
compute less than twice as much as one; the second bound takes what they really do together. Ratios of
the same turn, median [min..max].

Wants one core for each stage: the parameter server's work, which is on the same cores here, is kept
small beside the compute by a large batch.

    bazel build //tests/bench:pipeline_bench && bazel-bin/tests/bench/pipeline_bench [TURNS]
"""

import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile

MICRO_BATCHES = 8
SAMPLES = 32768
BATCH = 4096
WIDTH = 512
BLOCKS = 8
# The first block computes no gradient of its input, a third of the work; a last block of two thirds of
# a block makes two halves of equal work.
CLASSES = 341


def write_data(folder):
    generator = random.Random(1)
    with open(os.path.join(folder, "images"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, SAMPLES, 16, 32))
        file.write(generator.randbytes(SAMPLES * WIDTH))
    with open(os.path.join(folder, "labels"), "wb") as file:
        file.write(struct.pack(">II", 0x801, SAMPLES))
        file.write(bytes(generator.randrange(256) for _ in range(SAMPLES)))


def job(strategy, schedule):
    blocks = ["block { layer { flatten {} } layer { linear { out_features: %d } } layer { relu {} } }" % WIDTH]
    blocks += ["block { layer { linear { out_features: %d } } layer { relu {} } }" % WIDTH] * (BLOCKS - 2)
    blocks += ["block { layer { linear { out_features: %d } } }" % CLASSES]
    pipeline = "pipeline { schedule: %s }" % schedule if schedule else ""
    return """
name: "bench" seed: 1
model { input_shape: [16, 32] %s }
loss { softmax_cross_entropy {} }
data { idx { train_images: "images" train_labels: "labels" } }
optimizer { learning_rate: 0.01 sgd {} }
batch { size: %d micro_batches: %d shares: 1 }
epochs: 3
evaluation { off: true }
strategy: %s
%s
""" % (" ".join(blocks), BATCH, MICRO_BATCHES, strategy, pipeline)


def start(client, folder, name, strategy, schedule, workers):
    path = os.path.join(folder, name + ".textproto")
    with open(path, "w") as file:
        file.write(job(strategy, schedule))
    return subprocess.Popen([client, "run", path, "--workers=%d" % workers, "--threads=1", "--data_root=" + folder,
                             "--out=" + os.path.join(folder, name), "--overwrite"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(run, folder, name):
    output, _ = run.communicate(timeout=600)
    if run.returncode != 0:
        sys.exit("the job failed:\n" + output)
    # Without the first epoch, in which memory is touched for the first time.
    with open(os.path.join(folder, name, "metrics.jsonl")) as file:
        steps = [json.loads(line) for line in file if '"loss"' in line]
    times = [step["samples_done"] / step["samples_per_second"] for step in with_samples(steps)]
    first = len(times) // 3
    return (len(times) - first) * BATCH / (times[-1] - times[first - 1])


def samples_per_second(client, folder, strategy, schedule, workers):
    return finish(start(client, folder, "one", strategy, schedule, workers), folder, "one")


def of_two_at_once(client, folder):
    names = ["one", "other"]
    runs = [start(client, folder, name, "DATA_PARALLEL", "", 1) for name in names]
    return sum(finish(run, folder, name) for run, name in zip(runs, names))


def with_samples(steps):
    done = 0
    for step in steps:
        done += step["samples"]
        step["samples_done"] = done
    return steps


def show(name, values):
    print("%-44s %6.3f [%.3f..%.3f]" % (name, statistics.median(values), min(values), max(values)), flush=True)


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    here = os.path.dirname(os.path.abspath(__file__))
    client = os.path.join(here, "..", "..", "client", "sangam")
    kinds = ["EAGER_ONE_F_ONE_B", "ONE_F_ONE_B", "ZERO_BUBBLE", "GPIPE"]
    ratios = {kind: [] for kind in kinds}
    shared = {kind: [] for kind in kinds}
    against = {kind: [] for kind in kinds[::2]}
    with tempfile.TemporaryDirectory() as folder:
        write_data(folder)
        for _ in range(turns):
            alone = samples_per_second(client, folder, "DATA_PARALLEL", "", 1)
            both = of_two_at_once(client, folder)
            fill = MICRO_BATCHES / (MICRO_BATCHES + 1)
            speed = {kind: samples_per_second(client, folder, "MODEL_PARALLEL", kind, 2) for kind in kinds}
            for kind in kinds:
                ratios[kind].append(speed[kind] / (2 * alone * fill))
                shared[kind].append(speed[kind] / (both * fill))
            for kind, values in against.items():
                values.append(speed[kind] / speed["ONE_F_ONE_B"])
            print("one worker %.0f samples/s; two alone at once %.0f; two stages: %s" %
                  (alone, both, ", ".join("%s %.0f" % (kind, speed[kind]) for kind in kinds)), flush=True)
    for kind in kinds:
        show("%s / 2 x one worker x M/(M+1), M = %d" % (kind, MICRO_BATCHES), ratios[kind])
    for kind in kinds:
        show("%s / two at once x M/(M+1)" % kind, shared[kind])
    for kind, values in against.items():
        show("%s / ONE_F_ONE_B" % kind, values)


if __name__ == "__main__":
    main()
