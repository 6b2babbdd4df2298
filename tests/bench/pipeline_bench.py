#!/usr/bin/python3
"""Throughput of a two-stage pipeline against its bound, under each schedule.

Real daemons on this machine, one compute thread each, the same job in turns: one worker, then two
stages under ONE_F_ONE_B, ZERO_BUBBLE and GPIPE. The bound of a pipeline of p balanced stages with M
micro-batches is p x (one worker) x M / (M + p - 1); ratios of the same turn, median [min..max].

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
SAMPLES = 16384
BATCH = 2048
WIDTH = 512
BLOCKS = 8


def write_data(folder):
    generator = random.Random(1)
    with open(os.path.join(folder, "images"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, SAMPLES, 16, 32))
        file.write(generator.randbytes(SAMPLES * WIDTH))
    with open(os.path.join(folder, "labels"), "wb") as file:
        file.write(struct.pack(">II", 0x801, SAMPLES))
        file.write(bytes(generator.randrange(16) for _ in range(SAMPLES)))


def job(strategy, schedule):
    blocks = ["block { layer { flatten {} } layer { linear { out_features: %d } } layer { relu {} } }" % WIDTH]
    blocks += ["block { layer { linear { out_features: %d } } layer { relu {} } }" % WIDTH] * (BLOCKS - 2)
    blocks += ["block { layer { linear { out_features: 16 } } }"]
    pipeline = "pipeline { schedule: %s }" % schedule if schedule else ""
    return """
name: "bench" seed: 1
model { input_shape: [16, 32] %s }
loss { softmax_cross_entropy {} }
data { idx { train_images: "images" train_labels: "labels" } }
optimizer { learning_rate: 0.01 sgd {} }
batch { size: %d micro_batches: %d shares: 1 }
epochs: 4
evaluation { off: true }
strategy: %s
%s
""" % (" ".join(blocks), BATCH, MICRO_BATCHES, strategy, pipeline)


def samples_per_second(client, folder, strategy, schedule, workers):
    path = os.path.join(folder, "job.textproto")
    with open(path, "w") as file:
        file.write(job(strategy, schedule))
    out = os.path.join(folder, "out")
    run = subprocess.run([client, "run", path, "--workers=%d" % workers, "--threads=1", "--data_root=" + folder,
                          "--out=" + out, "--overwrite"], capture_output=True, text=True, timeout=600)
    if run.returncode != 0:
        sys.exit("the job failed:\n" + run.stdout + run.stderr)
    # Without the first epoch, in which memory is touched for the first time.
    with open(os.path.join(out, "metrics.jsonl")) as file:
        steps = [json.loads(line) for line in file if '"loss"' in line]
    times = [step["samples_done"] / step["samples_per_second"] for step in with_samples(steps)]
    first = len(times) // 4
    return (len(times) - first) * BATCH / (times[-1] - times[first - 1])


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
    kinds = ["ONE_F_ONE_B", "ZERO_BUBBLE", "GPIPE"]
    ratios = {kind: [] for kind in kinds}
    against = []
    with tempfile.TemporaryDirectory() as folder:
        write_data(folder)
        for _ in range(turns):
            alone = samples_per_second(client, folder, "DATA_PARALLEL", "", 1)
            bound = 2 * alone * MICRO_BATCHES / (MICRO_BATCHES + 1)
            speed = {kind: samples_per_second(client, folder, "MODEL_PARALLEL", kind, 2) for kind in kinds}
            for kind in kinds:
                ratios[kind].append(speed[kind] / bound)
            against.append(speed["ZERO_BUBBLE"] / speed["ONE_F_ONE_B"])
            print("one worker %.0f samples/s; two stages: %s" %
                  (alone, ", ".join("%s %.0f" % (kind, speed[kind]) for kind in kinds)), flush=True)
    for kind in kinds:
        show("%s / 2 x one worker x M/(M+1), M = %d" % (kind, MICRO_BATCHES), ratios[kind])
    show("ZERO_BUBBLE / ONE_F_ONE_B", against)


if __name__ == "__main__":
    main()
