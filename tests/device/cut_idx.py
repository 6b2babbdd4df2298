#!/usr/bin/env python3
"""The first items of an IDX file (the format of the MNIST family), as an IDX file; both gzipped.

Usage: cut_idx.py ITEMS IN.gz OUT.gz
"""

import gzip
import struct
import sys


def cut(items, source, target):
    with gzip.open(source) as file:
        head = file.read(4)
        if len(head) != 4 or head[:3] != b"\0\0\x08":
            sys.exit("%s: not an IDX file of bytes" % source)
        sizes = struct.unpack(">%dI" % head[3], file.read(4 * head[3]))
        if sizes[0] < items:
            sys.exit("%s: found %d items, expected at least %d" % (source, sizes[0], items))
        item_bytes = 1
        for size in sizes[1:]:
            item_bytes *= size
        body = file.read(items * item_bytes)
        if len(body) != items * item_bytes:
            sys.exit("%s: ends within item %d" % (source, len(body) // item_bytes))
    # The same input makes the same file.
    with open(target, "wb") as out, gzip.GzipFile("", "wb", mtime=0, fileobj=out) as file:
        file.write(head + struct.pack(">%dI" % len(sizes), items, *sizes[1:]) + body)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__.strip().splitlines()[-1])
    cut(int(sys.argv[1]), sys.argv[2], sys.argv[3])
