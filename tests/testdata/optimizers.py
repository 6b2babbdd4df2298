#!/usr/bin/env python3
"""Makes optimizers.txt: what PyTorch's optimizers and schedules do, for the tests of ours.

Usage: python3 tests/testdata/optimizers.py > tests/testdata/optimizers.txt   (needs python3-torch)

Two parameters of 5 and 3 elements follow given gradients for 20 steps, the first with the setting's
weight decay, the second without. Everything is computed in float64 by PyTorch's single-tensor
implementation on the CPU, with settings rounded to float32 as a job has them. LAMB is not part of
PyTorch: it is computed here with numpy after You et al. 2020, Algorithm 2, with bias corrections and
the identity for phi.

Lines: "weights W...", one "gradient G..." for each step; then for each setting "optimizer SPEC" (text
form of OptimizerSpec; weight_decay is that of the first parameter) and one "after W..." for each
step; then for each schedule "schedule STEPS SPEC" (steps of the job, text form of
LearningRateSpec) and "factors F..." with its factor in each of 50 steps.
"""

import math

import numpy
import torch

SIZES = (5, 3)
STEPS = 20
SCHEDULE_STEPS = 50


def f32(value):
    """A setting as a job has it."""
    return float(numpy.float32(value))


def numbers(values):
    return " ".join(f"{float(v):.9g}" for v in values)


def adam_options(kind, beta1=0.9, beta2=0.999, epsilon=1e-8, weight_decay=0.0):
    return kind, dict(betas=(f32(beta1), f32(beta2)), eps=f32(epsilon)), weight_decay


SETTINGS = [
    ("sgd {}", 0.1, ("SGD", {}, 0)),
    ("sgd { weight_decay: 0.1 }", 0.1, ("SGD", {}, 0.1)),
    ("momentum { momentum: 0.9 }", 0.05, ("SGD", dict(momentum=f32(0.9)), 0)),
    ("momentum { momentum: 0.8 weight_decay: 0.1 }", 0.05, ("SGD", dict(momentum=f32(0.8)), 0.1)),
    ("momentum { momentum: 0.9 nesterov: true weight_decay: 0.1 }", 0.05,
     ("SGD", dict(momentum=f32(0.9), nesterov=True), 0.1)),
    ("adagrad {}", 0.1, ("Adagrad", dict(eps=f32(1e-10)), 0)),
    ("adagrad { initial_accumulator: 0.5 epsilon: 0.001 weight_decay: 0.1 }", 0.1,
     ("Adagrad", dict(eps=f32(0.001), initial_accumulator_value=f32(0.5)), 0.1)),
    ("rmsprop {}", 0.01, ("RMSprop", dict(alpha=f32(0.99), eps=f32(1e-8)), 0)),
    ("rmsprop { alpha: 0.9 momentum: 0.9 weight_decay: 0.1 }", 0.01,
     ("RMSprop", dict(alpha=f32(0.9), eps=f32(1e-8), momentum=f32(0.9)), 0.1)),
    ("rmsprop { alpha: 0.9 centered: true epsilon: 0.001 }", 0.01,
     ("RMSprop", dict(alpha=f32(0.9), eps=f32(0.001), centered=True), 0)),
    ("rmsprop { alpha: 0.95 centered: true momentum: 0.5 epsilon: 0.001 weight_decay: 0.1 }", 0.01,
     ("RMSprop", dict(alpha=f32(0.95), eps=f32(0.001), centered=True, momentum=f32(0.5)), 0.1)),
    ("adam {}", 0.01, adam_options("Adam")),
    ("adam { beta1: 0.8 beta2: 0.95 epsilon: 0.001 weight_decay: 0.1 }", 0.01,
     adam_options("Adam", 0.8, 0.95, 0.001, 0.1)),
    ("adamw {}", 0.01, adam_options("AdamW", weight_decay=0.01)),
    ("adamw { beta1: 0.8 beta2: 0.95 epsilon: 0.001 weight_decay: 0.1 }", 0.01,
     adam_options("AdamW", 0.8, 0.95, 0.001, 0.1)),
    ("lamb {}", 0.01, adam_options("LAMB", epsilon=1e-6, weight_decay=0.01)),
    ("lamb { beta1: 0.8 beta2: 0.95 epsilon: 0.001 weight_decay: 0.1 }", 0.01,
     adam_options("LAMB", 0.8, 0.95, 0.001, 0.1)),
]


class Lamb:
    """You et al. 2020, Algorithm 2."""

    def __init__(self, groups, lr, betas, eps):
        self.groups, self.rate, self.betas, self.epsilon = groups, lr, betas, eps
        self.state = [(0.0, 0.0) for _ in groups]
        self.t = 0

    def step(self):
        self.t += 1
        beta1, beta2 = self.betas
        for i, group in enumerate(self.groups):
            w = group["params"][0].data.numpy()
            g = group["params"][0].grad.numpy()
            m = beta1 * self.state[i][0] + (1 - beta1) * g
            v = beta2 * self.state[i][1] + (1 - beta2) * g * g
            self.state[i] = (m, v)
            u = m / (1 - beta1**self.t) / (numpy.sqrt(v / (1 - beta2**self.t)) + self.epsilon)
            r = u + group["weight_decay"] * w
            w_norm, r_norm = numpy.linalg.norm(w), numpy.linalg.norm(r)
            trust = w_norm / r_norm if w_norm > 0 and r_norm > 0 else 1.0
            w -= self.rate * trust * r


def train(initial, gradients, rate, kind, options, weight_decay):
    parameters = [torch.tensor(part, dtype=torch.float64, requires_grad=True)
                  for part in numpy.split(initial, [SIZES[0]])]
    groups = [dict(params=[parameters[0]], weight_decay=f32(weight_decay)),
              dict(params=[parameters[1]], weight_decay=0.0)]
    if kind == "LAMB":
        optimizer = Lamb(groups, f32(rate), **options)
    else:
        optimizer = getattr(torch.optim, kind)(groups, lr=f32(rate), foreach=False, **options)
    for gradient in gradients:
        for parameter, part in zip(parameters, numpy.split(gradient, [SIZES[0]])):
            parameter.grad = torch.tensor(part, dtype=torch.float64)
        optimizer.step()
        yield numpy.concatenate([p.detach().numpy() for p in parameters])


def scheduled(make, steps):
    """Factors of a torch scheduler."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = make(optimizer)
    factors = []
    for _ in range(steps):
        factors.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return factors


def schedules():
    lr = torch.optim.lr_scheduler
    n = SCHEDULE_STEPS

    def constant(optimizer):
        return lr.ConstantLR(optimizer, factor=1.0, total_iters=0)

    def step(every, factor):
        return lambda o: lr.StepLR(o, every, gamma=f32(factor))

    def linear(end, steps):
        return lambda o: lr.LinearLR(o, 1.0, f32(end), steps)

    def cosine(end, steps):
        return lambda o: lr.CosineAnnealingLR(o, steps, eta_min=f32(end))

    def warm_up(start, steps):
        if start == 0:  # our rule: no step is without effect
            return lambda o: lr.LambdaLR(o, lambda s: (s + 1) / (steps + 1))
        return lambda o: lr.LinearLR(o, f32(start), 1.0, steps)

    yield "constant {}", scheduled(constant, n)
    yield ("constant {} warmup_steps: 10 warmup_start: 0.1",
           scheduled(warm_up(0.1, 10), 10) + scheduled(constant, n - 10))
    yield "step { every: 7 factor: 0.5 }", scheduled(step(7, 0.5), n)
    yield ("step { every: 12 } warmup_steps: 5",
           scheduled(warm_up(0, 5), 5) + scheduled(step(12, 0.1), n - 5))
    yield "linear {}", scheduled(linear(0, n), n)
    yield ("linear { end: 0.2 decay_steps: 30 } warmup_steps: 4 warmup_start: 0.25",
           scheduled(warm_up(0.25, 4), 4) + scheduled(linear(0.2, 30), n - 4))
    yield "cosine {}", scheduled(cosine(0, n), n)
    yield ("cosine { end: 0.1 } warmup_steps: 8",
           scheduled(warm_up(0, 8), 8) + scheduled(cosine(0.1, n - 8), n - 8))
    # PyTorch's cosine rises again after its steps; ours stays.
    yield ("cosine { end: 0.05 decay_steps: 25 }",
           scheduled(cosine(0.05, 25), 25) + [f32(0.05)] * (n - 25))


def main():
    random = numpy.random.RandomState(7)
    initial = random.randn(sum(SIZES)).astype(numpy.float32).astype(numpy.float64)
    gradients = random.randn(STEPS, sum(SIZES)) * 10.0 ** random.randint(-2, 2, sum(SIZES))
    gradients = gradients.astype(numpy.float32).astype(numpy.float64)
    print(f"# Made by optimizers.py with PyTorch {torch.__version__}.")
    print("weights", numbers(initial))
    for gradient in gradients:
        print("gradient", numbers(gradient))
    for text, rate, (kind, options, weight_decay) in SETTINGS:
        print(f"optimizer learning_rate: {rate} {text}")
        for weights in train(initial, gradients, rate, kind, options, weight_decay):
            assert all(math.isfinite(w) for w in weights)
            print("after", numbers(weights))
    for text, factors in schedules():
        print(f"schedule {SCHEDULE_STEPS} {text}")
        print("factors", numbers(factors))


if __name__ == "__main__":
    main()
