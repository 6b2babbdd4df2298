#!/usr/bin/env python3
"""Writes files in the exact layout of CIFAR-10's binary version (data_batch_1.bin to data_batch_5.bin and
test_batch.bin, records of 3073 bytes) with made-up images that can be learned: each class has stripes of a
direction, width and colour of its own, taken from a random place and covered with noise. For trying
cifar_cnn.textproto without the real data set, which has the same names and can be put in their place.

    deploy/jobs/make_cifar_like.py FOLDER [IMAGES_OF_EACH_BATCH]     # default: 1000
"""

import math
import pathlib
import random
import sys

SIDE = 32
CANVAS = 64  # images are windows of it
CLASSES = 10
NOISE_MASK = int.from_bytes(bytes([0x7F]) * (3 * SIDE * SIDE), "big")


def make_canvas(label: int) -> list[list[bytes]]:
    """Rows of each plane, with values up to 128: noise of up to 127 can be added without a carry."""
    angle = math.pi * label / CLASSES
    # No two classes are mirror images of one another: the job flips half of the images.
    width = 3 + label % 5
    planes = []
    for plane in range(3):
        strength = 24 + 40 * ((label >> plane) & 1)
        rows = []
        for y in range(CANVAS):
            wave = (math.sin((x * math.cos(angle) + y * math.sin(angle)) / width) for x in range(CANVAS))
            rows.append(bytes(int(64 + strength * value) for value in wave))
        planes.append(rows)
    return planes


def make_record(rng: random.Random, canvases: list[list[list[bytes]]]) -> bytes:
    label = rng.randrange(CLASSES)
    top = rng.randrange(CANVAS - SIDE + 1)
    left = rng.randrange(CANVAS - SIDE + 1)
    image = b"".join(
        row[left : left + SIDE] for plane in canvases[label] for row in plane[top : top + SIDE]
    )
    noise = int.from_bytes(rng.randbytes(len(image)), "big") & NOISE_MASK
    return bytes([label]) + (int.from_bytes(image, "big") + noise).to_bytes(len(image), "big")


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    images = int(sys.argv[2]) if len(sys.argv) == 3 else 1000
    folder.mkdir(parents=True, exist_ok=True)
    canvases = [make_canvas(label) for label in range(CLASSES)]
    names = [f"data_batch_{batch}.bin" for batch in range(1, 6)] + ["test_batch.bin"]
    for seed, name in enumerate(names):
        rng = random.Random(seed)
        (folder / name).write_bytes(b"".join(make_record(rng, canvases) for _ in range(images)))


if __name__ == "__main__":
    main()
