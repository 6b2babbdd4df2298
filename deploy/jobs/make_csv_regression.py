#!/usr/bin/env python3
"""Writes the data of csv_regression.textproto, always the same: a price that follows from six numbers in a
way that no line fits, with noise (standard deviation 0.1), so that no model gets a mean squared error much
below 0.01. Some fields are empty, as in real files.

    deploy/jobs/make_csv_regression.py deploy/jobs/data
"""

import math
import pathlib
import random
import sys

COLUMNS = ["area", "rooms", "age", "distance", "floor", "noise_level", "price"]


def make_row(rng: random.Random) -> list[str]:
    area = rng.uniform(20, 200)
    rooms = rng.randint(1, 8)
    age = rng.uniform(0, 100)
    distance = rng.expovariate(1 / 5)
    floor = rng.randint(0, 20)
    noise_level = rng.uniform(30, 80)
    price = (
        math.sin(area / 30)
        + 0.5 * math.tanh((rooms - 4) / 2) * math.exp(-distance / 10)
        + 0.3 * ((age - 50) / 50) ** 2
        + (0.4 if floor > 10 and noise_level < 55 else 0)
        + rng.gauss(0, 0.1)
    )
    fields = [f"{area:.1f}", str(rooms), f"{age:.1f}", f"{distance:.2f}", str(floor), f"{noise_level:.1f}"]
    # Nobody measured it.
    if rng.random() < 0.02:
        fields[5] = ""
    return fields + [f"{price:.4f}"]


def write(path: pathlib.Path, rows: int, seed: int) -> None:
    rng = random.Random(seed)
    lines = [",".join(COLUMNS)] + [",".join(make_row(rng)) for _ in range(rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "prices_train.csv", 2000, seed=1)
    write(folder / "prices_test.csv", 500, seed=2)


if __name__ == "__main__":
    main()
