"""A name server for tests: A records that change while it runs, answered late.

Usage: name_server.py ADDRESS RECORDS DELAYS
RECORDS is a file of lines "name address", read anew for every question, so that a pod's name moves with the pod. A name
that has none is NXDOMAIN, other kinds of records are empty. DELAYS, "0.0,0.3,0.6": how long the answers to the first,
second, ... question wait, over and over.
"""

import itertools
import socket
import struct
import sys
import threading
import time

A_RECORD, INTERNET = 1, 1
NXDOMAIN = 3
# Short, as Kubernetes has it for Services: nobody may keep an address for long.
TIME_TO_LIVE = 5


def name_of(question):
    """The name in a question and the offset behind it."""
    labels, offset = [], 12
    while question[offset]:
        length = question[offset]
        labels.append(question[offset + 1 : offset + 1 + length].decode("ascii", "replace"))
        offset += 1 + length
    return ".".join(labels).lower(), offset + 1


def answer(question, records):
    """The answer to a question, RFC 1035."""
    name, offset = name_of(question)
    kind = struct.unpack("!H", question[offset : offset + 2])[0]
    addresses = [address for known, address in records if known == name]
    found = addresses if kind == A_RECORD else []
    flags = 0x8580 | (0 if addresses else NXDOMAIN)  # an answer, by authority, recursion as asked
    header = question[:2] + struct.pack("!HHHHH", flags, 1, len(found), 0, 0)
    records_text = b"".join(
        struct.pack("!HHHIH", 0xC00C, A_RECORD, INTERNET, TIME_TO_LIVE, 4) + socket.inet_aton(address) for address in found
    )
    return header + question[12 : offset + 4] + records_text


def read_records(path):
    with open(path, encoding="ascii") as file:
        return [tuple(line.split()) for line in file if line.strip()]


def main():
    address, path, delays = sys.argv[1], sys.argv[2], [float(d) for d in sys.argv[3].split(",")]
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.bind((address, 53))
    waits = itertools.cycle(delays)

    def serve(question, peer, wait):
        time.sleep(wait)
        listener.sendto(answer(question, read_records(path)), peer)

    while True:
        question, peer = listener.recvfrom(4096)
        if len(question) > 16:
            threading.Thread(target=serve, args=(question, peer, next(waits)), daemon=True).start()


if __name__ == "__main__":
    main()
