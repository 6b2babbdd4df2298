#!/usr/bin/python3
"""Reads a file of client/safetensors.h with a parser of its own, written from the format's description alone.

https://github.com/huggingface/safetensors, "Format": the header's length in 8 bytes little-endian, a JSON object,
then the bytes of the tensors, in row-major order and without holes.
"""

import json
import math
import os
import struct
import subprocess
import sys
import tempfile

import numpy


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), "a key appears twice: %s" % keys
    return dict(pairs)


def read_safetensors(path):
    """Returns (metadata, names in the file's order, name -> array); raises when a rule of the format is broken."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    assert length <= 100_000_000 and 8 + length <= len(data), "header of %d bytes" % length
    header = data[8 : 8 + length]
    assert header[:1] == b"{", "the header must begin with '{'"
    assert header.rstrip(b" ")[-1:] == b"}", "only spaces may follow the header's object"
    assert (8 + length) % 8 == 0, "the tensors are not aligned to 8 bytes"
    entries = json.loads(header.decode("utf-8"), object_pairs_hook=no_duplicates)
    metadata = entries.pop("__metadata__")
    assert all(isinstance(value, str) for value in metadata.values()), "metadata are strings"
    body = data[8 + length :]
    arrays = {}
    end_of_last = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        assert set(entry) == {"dtype", "shape", "data_offsets"}, entry
        assert entry["dtype"] == "F32", entry
        begin, end = entry["data_offsets"]
        assert begin == end_of_last, "a hole or an overlap before %s" % name
        assert end - begin == 4 * math.prod(entry["shape"]), "%s: %s" % (name, entry)
        end_of_last = end
        arrays[name] = numpy.frombuffer(body[begin:end], dtype="<f4").reshape(entry["shape"])
    assert end_of_last == len(body), "%d bytes behind the last tensor" % (len(body) - end_of_last)
    return metadata, list(entries), arrays


def main():
    writer = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "safetensors_writer")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.safetensors")
        subprocess.run([writer, path], check=True, timeout=60)
        assert os.listdir(directory) == ["model.safetensors"], os.listdir(directory)
        metadata, names, arrays = read_safetensors(path)
        with open(path, "rb") as file:
            first = file.read()
        subprocess.run([writer, path], check=True, timeout=60)
        with open(path, "rb") as file:
            assert file.read() == first, "the same tensors make another file"

    assert metadata == {"format": "sangam"}, metadata
    assert names == ["Zscalar", "empty", "hidden.0.bias", "hidden.0.weight"], names
    counted = (numpy.arange(6 * 35, dtype=numpy.float32) * numpy.float32(0.5) - numpy.float32(3)).reshape(6, 35)
    numpy.testing.assert_array_equal(arrays["hidden.0.weight"], counted)
    assert arrays["Zscalar"].shape == () and arrays["Zscalar"] == 2.5
    assert arrays["empty"].shape == (3, 0)
    info = numpy.finfo(numpy.float32)
    special = numpy.array([numpy.inf, -numpy.inf, numpy.nan, -0.0, 2.0**-149, info.max], dtype=numpy.float32)
    numpy.testing.assert_array_equal(arrays["hidden.0.bias"], special)
    assert numpy.signbit(arrays["hidden.0.bias"][3])
    print("safetensors_reader_test: %d tensors read back" % len(arrays))


if __name__ == "__main__":
    main()
