#!/usr/bin/python3
"""The same training jobs in Sangam and in PyTorch, in turns: samples per second and accuracy.

Each job file is run by `sangam run` and, its model built from the same file, by Debian's python3-torch:
one worker beside one process, two workers beside DistributedDataParallel over gloo with two processes;
one compute thread each. The cut of a batch into micro-batches is part of the arithmetic in both systems:
PyTorch takes the whole batch in each process, or its part of it, at once; a job of Sangam is cut as its file
says, into more pieces than it has workers, so that more workers could share them. Where the pieces are so
small that this costs speed (the first of the jobs), Sangam is shown with both cuts: its file's, and PyTorch's
(batch.micro_batches = batch.shares = the number of processes). PyTorch has its data in memory as normalised floats, so it loads nothing while it
trains. Speeds are those of the training steps after the first epoch, without evaluation. Ratios are
of the same turn, median [min..max]; above 1 Sangam is faster. Accuracies need not be equal: the random
numbers differ.

    bazel build //tests/bench:torch_compare && bazel-bin/tests/bench/torch_compare [TURNS] [JOB_FILE ...]

Wants Fashion-MNIST (Debian's dataset-fashion-mnist), OpenBLAS (libopenblas0-pthread: Debian's torch would
multiply with the reference BLAS, more than ten times slower; SANGAM_TORCH_BLAS=FOLDER names a folder with
another libblas.so.3) and two quiet cores; job files whose layers or data
are not of the kinds below are refused by name.
"""

import gzip
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
HERE = os.path.dirname(os.path.abspath(__file__))
RUNFILES = os.path.join(HERE, "..", "..")
DATA_ROOT = os.environ.get("SANGAM_DATA_ROOT", "/usr/share/datasets/fashion-mnist")
JOBS = [
    "deploy/jobs/fashion_mnist_mlp.textproto",  # see BOTH_CUTS
    "deploy/jobs/fashion_mnist_cnn.textproto",
    "deploy/jobs/residual_cnn.textproto",
]
# Jobs that are run with PyTorch's cut too.
BOTH_CUTS = ["fashion-mnist-mlp"]
# Where Debian has OpenBLAS's libblas.so.3.
BLAS_FOLDERS = ["/usr/lib/x86_64-linux-gnu/openblas-pthread", "/usr/lib/x86_64-linux-gnu/openblas-openmp",
                "/usr/lib/x86_64-linux-gnu/openblas-serial"]
DEADLINE_S = 1800


def skip(reason):
    print("torch_compare: skipped: " + reason)
    sys.exit(0)


def load_job(path):
    """The job file as a message, read by classes generated from proto/ on the spot."""
    from google.protobuf import text_format
    with tempfile.TemporaryDirectory() as folder:
        protos = [os.path.join("proto", name) for name in ("model.proto", "job.proto")]
        subprocess.run(["protoc", "--proto_path=" + ROOT, "--proto_path=/usr/include", "--python_out=" + folder] + protos,
                       check=True, cwd=ROOT)
        sys.path.insert(0, folder)
        from proto import job_pb2
        sys.path.pop(0)
    with open(path) as file:
        return text_format.Parse(file.read(), job_pb2.JobSpec())


def read_idx(path):
    import numpy
    opened = gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")
    with opened as file:
        data = file.read()
    dimensions = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dimensions)]
    return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)


def load_data(job, torch):
    """(images [n, features], labels [n]) of the training and of the test set."""
    idx = job.data.idx
    if job.data.WhichOneof("kind") != "idx":
        sys.exit("data: found %s, this comparison reads idx" % job.data.WhichOneof("kind"))
    stddev = job.data.stddev if job.data.HasField("stddev") else 1.0
    sets = []
    for images, labels in ((idx.train_images, idx.train_labels), (idx.test_images, idx.test_labels)):
        pixels = torch.from_numpy(read_idx(os.path.join(DATA_ROOT, images)).astype("float32"))
        pixels = (pixels / 255 - job.data.mean) / stddev
        sets.append((pixels.reshape(len(pixels), -1),
                     torch.from_numpy(read_idx(os.path.join(DATA_ROOT, labels)).astype("int64"))))
    return sets


def build(job, torch):
    """The job's model as a torch module over [n, features]; images inside are [n, channels, height, width]."""
    nn = torch.nn

    class Residual(nn.Module):

        def __init__(self, inner, shortcut):
            super().__init__()
            self.inner, self.shortcut = inner, shortcut

        def forward(self, x):
            return self.shortcut(x) + self.inner(x)

    def window(layer, kernel_height, kernel_width, stride):
        return {"kernel_size": (kernel_height, kernel_width), "stride": stride, "padding": layer.padding}

    def chain(layers, shape):
        modules = []
        for layer in layers:
            module, shape = one(layer, shape)
            modules.append(module)
        return nn.Sequential(*modules), shape

    def swept(shape, channels, kernel_height, kernel_width, stride, padding):
        return [channels, (shape[1] + 2 * padding - kernel_height) // stride + 1,
                (shape[2] + 2 * padding - kernel_width) // stride + 1]

    def one(layer, shape):
        kind = layer.WhichOneof("kind")
        spec = getattr(layer, kind)
        if kind == "flatten":
            return nn.Flatten(), [math.prod(shape)]
        if kind == "linear":
            return nn.Linear(shape[-1], spec.out_features, bias=not spec.no_bias), shape[:-1] + [spec.out_features]
        if kind in ("relu", "gelu", "tanh", "sigmoid"):
            return {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}[kind](), shape
        if kind == "dropout":
            return nn.Dropout(spec.rate), shape
        if kind == "conv2d":
            height, stride = spec.kernel_height, spec.stride or 1
            width = spec.kernel_width or height
            module = nn.Conv2d(shape[0], spec.out_channels, bias=not spec.no_bias, **window(spec, height, width, stride))
            return module, swept(shape, spec.out_channels, height, width, stride, spec.padding)
        if kind in ("max_pool2d", "average_pool2d"):
            kernel = spec.kernel or shape[1]
            stride = spec.stride or kernel
            pool = nn.MaxPool2d if kind == "max_pool2d" else nn.AvgPool2d
            return pool(**window(spec, kernel, kernel, stride)), swept(shape, shape[0], kernel, kernel, stride, spec.padding)
        if kind == "batch_norm":
            norm = nn.BatchNorm2d if len(shape) == 3 else nn.BatchNorm1d
            epsilon = spec.epsilon if spec.HasField("epsilon") else 1e-5
            return norm(shape[0], eps=epsilon, momentum=spec.momentum if spec.HasField("momentum") else 0.1), shape
        if kind == "residual":
            inner, out = chain(spec.layer, shape)
            shortcut, _ = chain(spec.shortcut, shape)
            return Residual(inner, shortcut), out
        sys.exit("model: found a layer %s, which this comparison does not build" % kind)

    shape = list(job.model.input_shape)
    modules = []
    if len(shape) == 3:
        shape = [shape[2], shape[0], shape[1]]
        if shape[0] != 1:
            sys.exit("model.input_shape: found %d channels, this comparison reads images of one" % shape[0])
        modules.append(nn.Unflatten(1, shape))
    for block in job.model.block:
        if block.add_output_of:
            sys.exit("model.block.add_output_of: this comparison does not build skip connections")
        module, shape = chain(block.layer, shape)
        modules.append(module)
    return nn.Sequential(*modules)


def make_optimizer(job, model, torch):
    spec = job.optimizer
    kind = spec.WhichOneof("kind")
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    one = getattr(spec, kind)
    decay = one.weight_decay if one.HasField("weight_decay") else (0.01 if kind == "adamw" else 0.0)
    groups = [{"params": decayed, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=spec.learning_rate)
    if kind == "momentum":
        return torch.optim.SGD(groups, lr=spec.learning_rate, momentum=one.momentum, nesterov=one.nesterov)
    if kind in ("adam", "adamw"):
        return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](groups, lr=spec.learning_rate)
    sys.exit("optimizer: found %s, this comparison has sgd, momentum, adam and adamw" % kind)


def factor_of(job, steps):
    """The learning rate's factor by step, as LearningRateSpec in proto/model.proto has it."""
    spec = job.optimizer.schedule
    kind = spec.WhichOneof("kind") or "constant"

    def factor(step):
        if step < spec.warmup_steps:
            if spec.warmup_start == 0:
                return (step + 1) / (spec.warmup_steps + 1)
            return spec.warmup_start + (1 - spec.warmup_start) * step / spec.warmup_steps
        t = step - spec.warmup_steps
        if kind == "constant":
            return 1.0
        if kind == "step":
            return (spec.step.factor if spec.step.HasField("factor") else 0.1)**(t // spec.step.every)
        one = getattr(spec, kind)
        progress = min(1.0, t / (one.decay_steps or max(1, steps - spec.warmup_steps)))
        if kind == "linear":
            return 1 + (one.end - 1) * progress
        return one.end + (1 - one.end) * (1 + math.cos(math.pi * progress)) / 2

    return factor


def train_in_torch(path, rank, world, port):
    """One process; rank 0 prints its result as JSON."""
    import torch
    torch.set_num_threads(1)
    job = load_job(path)
    (images, labels), (test_images, test_labels) = load_data(job, torch)
    torch.manual_seed(job.seed)
    model = build(job, torch)
    trained = model
    if world > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
        torch.distributed.init_process_group("gloo", rank=rank, world_size=world)
        trained = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = make_optimizer(job, model, torch)
    size, count = job.batch.size, len(images)
    steps_per_epoch = (count + size - 1) // size
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor_of(job, steps_per_epoch * job.epochs))
    max_norm = job.optimizer.clipping.max_norm if job.optimizer.HasField("clipping") else None
    loss_of = torch.nn.CrossEntropyLoss()
    begin = None
    for epoch in range(job.epochs):
        if epoch == 1:
            begin = time.monotonic()
        order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
        for first in range(0, count, size):
            chosen = order[first:first + size]
            mine = chosen[len(chosen) * rank // world:len(chosen) * (rank + 1) // world]
            optimizer.zero_grad(set_to_none=True)
            loss_of(trained(images[mine]), labels[mine]).backward()
            if max_norm is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            schedule.step()
    seconds = time.monotonic() - begin
    if rank == 0:
        model.eval()
        with torch.no_grad():
            correct = sum(int((model(test_images[i:i + 1000]).argmax(1) == test_labels[i:i + 1000]).sum())
                          for i in range(0, len(test_images), 1000))
        print(json.dumps({"speed": count * (job.epochs - 1) / seconds, "accuracy": correct / len(test_images)}))


def blas_folder():
    """The folder whose libblas.so.3 torch is to load; None: there is none but the reference BLAS."""
    named = os.environ.get("SANGAM_TORCH_BLAS")
    folders = [named] if named else BLAS_FOLDERS
    return next((folder for folder in folders if os.path.exists(os.path.join(folder, "libblas.so.3"))), None)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def of_torch(path, world):
    port = free_port()
    runs = [subprocess.Popen([sys.executable, os.path.abspath(__file__), "--torch", path, str(rank), str(world), str(port)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                                      LD_LIBRARY_PATH=blas_folder())) for rank in range(world)]
    outputs = [run.communicate(timeout=DEADLINE_S) for run in runs]
    for run, (_, errors) in zip(runs, outputs):
        if run.returncode != 0:
            sys.exit("torch failed:\n" + errors)
    result = json.loads(outputs[0][0].strip().splitlines()[-1])
    return result["speed"], result["accuracy"]


def of_sangam(path, workers, epochs, cut=None):
    """`cut`: micro-batches and shares; None: as the file says."""
    changes = [] if cut is None else ["--set", "batch.micro_batches=%d" % cut, "--set", "batch.shares=%d" % cut]
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        client = os.path.join(RUNFILES, "client", "sangam")
        run = subprocess.run([client, "run", path, "--workers=%d" % workers, "--servers=1", "--threads=1",
                              "--set", "evaluation.every_epochs=0", "--data_root=" + DATA_ROOT, "--out=" + out] + changes,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S)
        if run.returncode != 0:
            sys.exit("sangam failed:\n" + run.stdout)
        with open(os.path.join(out, "metrics.jsonl")) as file:
            lines = [json.loads(line) for line in file]
    steps = [line for line in lines if "loss" in line and "samples_per_second" in line]
    accuracy = [line["accuracy"] for line in lines if "accuracy" in line][-1]
    done, times = 0, []
    for step in steps:
        done += step["samples"]
        times.append((done, done / step["samples_per_second"]))
    before = times[len(times) // epochs - 1]
    return (times[-1][0] - before[0]) / (times[-1][1] - before[1]), accuracy


def show(name, values):
    print("%-68s %8.3f [%.3f..%.3f]" % (name, statistics.median(values), min(values), max(values)), flush=True)


def compare(path, turns):
    job = load_job(path)
    if job.epochs < 2:
        sys.exit("%s: epochs: found %d, expected at least 2: the first one warms up" % (path, job.epochs))
    # By number of workers and processes: how Sangam cuts the batches, and into how many micro-batches.
    file_cut = "cut in %d by the job file" % max(1, job.batch.micro_batches)
    cuts = {count: [(file_cut, None)] for count in (1, 2)}
    if job.name in BOTH_CUTS:
        for count, named in cuts.items():
            named.append(("cut in %d as torch's" % count, count))
    sides, pairs = {}, []
    for count, theirs in ((1, "torch, 1 process"), (2, "torch, DDP with 2 processes")):
        for name, cut in cuts[count]:
            ours = "sangam, %d worker%s, %s" % (count, "s" if count > 1 else "", name)
            sides[ours] = lambda count=count, cut=cut: of_sangam(path, count, job.epochs, cut)
            pairs.append((ours, theirs))
        sides[theirs] = lambda count=count: of_torch(path, count)
    speeds = {side: [] for side in sides}
    accuracies = {side: [] for side in sides}
    for _ in range(turns):
        for side, run in sides.items():
            speed, accuracy = run()
            speeds[side].append(speed)
            accuracies[side].append(accuracy)
    print("%s, batches of %d" % (job.name, job.batch.size))
    for side in sides:
        show("  %s, samples/s" % side, speeds[side])
    for side in sides:
        show("  %s, test accuracy" % side, accuracies[side])
    for ours, theirs in pairs:
        show("  %s / %s" % (ours, theirs), [a / b for a, b in zip(speeds[ours], speeds[theirs])])


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--torch":
        return train_in_torch(sys.argv[2], *[int(number) for number in sys.argv[3:6]])
    try:
        import torch  # pylint: disable=unused-import
    except ImportError:
        skip("python3-torch is not installed (apt-get install python3-torch)")
    if not os.path.isdir(DATA_ROOT):
        skip("%s is not there (apt-get install dataset-fashion-mnist)" % DATA_ROOT)
    if blas_folder() is None:
        skip("torch has only the reference BLAS (apt-get install libopenblas0-pthread, or SANGAM_TORCH_BLAS=FOLDER)")
    print("torch multiplies with " + os.path.realpath(os.path.join(blas_folder(), "libblas.so.3")), flush=True)
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    for path in [os.path.abspath(path) for path in sys.argv[2:]] or [os.path.join(ROOT, job) for job in JOBS]:
        compare(path, turns)
    return None


if __name__ == "__main__":
    main()
