#!/usr/bin/python3
"""A plain protobuf client takes part in a job: reads weights, pushes a gradient, gets the new weights.

Nothing of Sangam's own code is used: the messages come from protoc, the calls from grpcio.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time

import grpc
import numpy

DEADLINE_S = 30

# The job that page_server holds (tests/server/runtime/shard_fixture.cc).
JOB, GENERATION, SCHEMA = 7, 1, 4711
LEARNING_RATE = numpy.float32(0.125)
PAGES = {(0, 0): 10, (0, 10): 10, (0, 20): 5, (1, 0): 4}


def generate_messages(folder):
    protos = ["proto/tensor.proto", "proto/parameter_service.proto"]
    subprocess.run(["/usr/bin/protoc", "-I.", "--python_out=" + folder] + protos, check=True, timeout=DEADLINE_S)
    sys.path.insert(0, folder)


def start_server(folder):
    ready = os.path.join(folder, "ready")
    process = subprocess.Popen(["tests/python/page_server", ready], stdin=subprocess.PIPE)
    until = time.monotonic() + DEADLINE_S
    while not os.path.exists(ready):
        assert process.poll() is None, "page_server ended with %s" % process.returncode
        assert time.monotonic() < until, "page_server is not ready"
        time.sleep(0.01)
    with open(ready) as file:
        return process, file.read().strip()


class Client:
    def __init__(self, address):
        from proto import parameter_service_pb2, tensor_pb2

        self.tensor = tensor_pb2
        channel = grpc.insecure_channel(address)
        self.push_pull = channel.stream_stream(
            "/sangam.v1.ParameterService/PushPull",
            request_serializer=tensor_pb2.TensorFrame.SerializeToString,
            response_deserializer=tensor_pb2.TensorFrame.FromString)
        self.read_weights = channel.unary_stream(
            "/sangam.v1.ParameterService/ReadWeights",
            request_serializer=parameter_service_pb2.ReadWeightsRequest.SerializeToString,
            response_deserializer=tensor_pb2.TensorFrame.FromString)
        self.read_request = parameter_service_pb2.ReadWeightsRequest(job=JOB)

    def frame(self, kind, payload=b"", **fields):
        header = self.tensor.FrameHeader(job=JOB, generation=GENERATION, kind=kind)
        for name, value in fields.items():
            setattr(header, name, value)
        return self.tensor.TensorFrame(header=header, payload=payload)

    def hello(self, **changes):
        fields = dict(protocol_version=2, schema_hash=SCHEMA, worker="w0", incarnation=100)
        fields.update(changes)
        return self.frame(self.tensor.FRAME_KIND_HELLO, self.tensor.StreamHello(**fields).SerializeToString())

    def subscribe(self, segment, count):
        return self.frame(self.tensor.FRAME_KIND_SUBSCRIBE, segment=segment, element_count=count)

    def gradient(self, segment, first, values, span, samples, **changes):
        fields = dict(segment=segment, first_element=first, element_count=len(values), span_begin=span[0],
                      span_end=span[1], samples=samples, encoding=self.tensor.ENCODING_FP32)
        fields.update(changes)
        return self.frame(self.tensor.FRAME_KIND_GRADIENT, values.astype("<f4").tobytes(), **fields)

    def weights(self, frames, step):
        """Reads frames until every page has come; page -> array."""
        found = {}
        while len(found) < len(PAGES):
            frame = next(frames)
            assert frame.header.kind == self.tensor.FRAME_KIND_WEIGHTS
            assert frame.header.step == step, frame.header
            page = (frame.header.segment, frame.header.first_element)
            found[page] = numpy.frombuffer(frame.payload, "<f4")
            assert len(found[page]) == PAGES[page] == frame.header.element_count
        return found

    def refusal(self, *frames):
        """The status with which the server ends a stream that sends `frames`."""

        def requests():
            yield from frames
            # Keeps the stream open: the server, not we, must end it.
            time.sleep(5)

        try:
            for _ in self.push_pull(requests(), timeout=DEADLINE_S):
                pass
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK


def test_push_and_pull(client):
    random = numpy.random.default_rng(1)
    gradients = {page: random.standard_normal((2, count), dtype=numpy.float32) for page, count in PAGES.items()}

    all_here = threading.Event()

    def requests():
        yield client.hello()
        yield client.subscribe(0, 25)
        yield client.subscribe(1, 4)
        # As a worker does: gradients come from weights. (New weights replace older ones that still wait.)
        assert all_here.wait(DEADLINE_S)
        for (segment, first), pair in gradients.items():
            # The second share before the first: the order must not matter.
            yield client.gradient(segment, first, pair[1], (1, 2), 2)
            yield client.gradient(segment, first, pair[1], (1, 2), 2)
            yield client.gradient(segment, first, pair[0], (0, 1), 3)

    frames = client.push_pull(requests(), timeout=DEADLINE_S)
    before, after = {}, {}
    while len(after) < len(PAGES):
        frame = next(frames)
        page = (frame.header.segment, frame.header.first_element)
        {0: before, 1: after}[frame.header.step][page] = numpy.frombuffer(frame.payload, "<f4")
        if len(before) == len(PAGES):
            all_here.set()
    assert len(before) == len(PAGES), "the first weights of %d pages came" % len(before)
    for page, pair in gradients.items():
        # Momentum begins at 0, so the first step is plain descent by the mean gradient.
        expected = before[page] - LEARNING_RATE * ((pair[0] + pair[1]) / numpy.float32(5))
        assert numpy.array_equal(after[page], expected), page

    again = client.weights(client.read_weights(client.read_request, timeout=DEADLINE_S), step=1)
    for page in PAGES:
        assert numpy.array_equal(again[page], after[page]), page


def test_bad_frames_are_refused(client):
    values = numpy.zeros(10, numpy.float32)
    good = dict(segment=0, first=0, values=values, span=(0, 1), samples=1)
    code = grpc.StatusCode
    cases = [
        ("no hello", [client.subscribe(0, 25)], code.INVALID_ARGUMENT),
        ("hello twice", [client.hello(), client.hello()], code.INVALID_ARGUMENT),
        ("other protocol", [client.hello(protocol_version=3)], code.FAILED_PRECONDITION),
        ("other schema", [client.hello(schema_hash=1)], code.FAILED_PRECONDITION),
        ("stale process", [client.hello(incarnation=99)], code.ABORTED),
        ("old generation", [client.hello(), client.gradient(**good, generation=0)], code.ABORTED),
        ("no such segment", [client.hello(), client.gradient(**dict(good, segment=2))], code.INVALID_ARGUMENT),
        ("beyond the end", [client.hello(), client.gradient(**dict(good, first=30))], code.INVALID_ARGUMENT),
        ("inside a page", [client.hello(), client.gradient(**dict(good, first=5))], code.INVALID_ARGUMENT),
        ("short payload", [client.hello(), client.gradient(**dict(good, values=values[:9]), element_count=10)],
         code.INVALID_ARGUMENT),
        ("span outside", [client.hello(), client.gradient(**dict(good, span=(0, 3)))], code.INVALID_ARGUMENT),
        ("empty span", [client.hello(), client.gradient(**dict(good, span=(1, 1)))], code.INVALID_ARGUMENT),
        ("no encoding", [client.hello(), client.gradient(**good, encoding=0)], code.INVALID_ARGUMENT),
        ("later step", [client.hello(), client.gradient(**good, step=9)], code.FAILED_PRECONDITION),
        ("no such job", [client.frame(client.tensor.FRAME_KIND_HELLO, job=8)], code.NOT_FOUND),
    ]
    for name, frames, expected in cases:
        found = client.refusal(*frames)
        assert found == expected, "%s: found %s, expected %s" % (name, found, expected)
    # The server lives on and its weights are those of the first step.
    client.weights(client.read_weights(client.read_request, timeout=DEADLINE_S), step=1)


def main():
    with tempfile.TemporaryDirectory() as folder:
        generate_messages(folder)
        server, address = start_server(folder)
        try:
            client = Client(address)
            test_push_and_pull(client)
            test_bad_frames_are_refused(client)
        finally:
            server.stdin.close()
            server.wait(timeout=DEADLINE_S)
        assert server.returncode == 0, "page_server ended with %d" % server.returncode
    print("ok")


main()
