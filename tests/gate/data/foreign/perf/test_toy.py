import pytest
import torch
import toy

from pytest_rightfast import call, peer


def draw(batch=2):
    return torch.randn(batch, 500)


def test_double(perf):
    perf(toy.double, draw(), reference=lambda x: x * 2)


@pytest.mark.parametrize("batch", [1, 3])
def test_square(perf, batch):
    perf(toy.square, draw(batch), reference=lambda x: x * x)


def test_thrice(perf):
    perf(toy.thrice, draw(), reference=lambda x: x * 3)


def test_shift(perf):
    perf(toy.shift, draw(), reference=lambda x: x + 1, families=("large",))


def test_halve(perf):
    perf(toy.halve, draw(), reference=lambda x: x / 2)


def test_lean(perf):
    perf(toy.lean, draw(), reference=lambda x: x + 1)


def test_broken(perf):
    perf(toy.broken, draw(), reference=lambda x: x)


def test_repaired(perf):
    perf(toy.repaired, draw(), reference=lambda x: x)


@pytest.mark.perf_backends(ours=toy.negate, theirs=peer(toy.noisy))
def test_negate(perf, backend):
    perf(backend, draw(), reference=lambda x: -x)


def test_steps(perf):
    perf.sequence(make=lambda: toy.double, fresh=lambda: toy.double, steps=[call(draw())])


def test_quits(perf):
    perf(toy.quits, draw(), reference=lambda x: x + 2)


def test_leaves(perf):
    assert toy.FIRST or pytest.exit("no more of this")
    perf(toy.negate, draw(), reference=lambda x: -x)


def test_skipped(perf):
    pytest.skip("not here")
