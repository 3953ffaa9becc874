"""Queries to circuits by kernels: samples by chi-square, the others against torch in float64.
Interpreted, in a process of their own, and on CUDA where there is one."""

import pytest
import torch

pytest.importorskip("triton")

from rightfast import circuits
from rightfast.circuits import (
    Bernoulli,
    Categorical,
    DiscretizedLogistic,
    Gaussian,
    compile,
    hclt,
    inputs,
    multiply,
    rat_spn,
    topdown,
)
from rightfast.circuits.gpu import lowering, tiles
from rightfast.circuits.options import Pass

from .common import STRUCTURES
from .gpu_cases import DEVICE, INTERPRETED, again_interpreted, built, by_kernels, close, here
from .test_queries import assert_frequencies, completions_of, half_missing

COUNT, GIVEN = 2000, 128  # samples without evidence, and with some
QUICK = ("hmm", "pd", "mixed-leaves", "ragged", "shared")  # for the interpreter


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    by_kernels(monkeypatch, recorded=True)

    def wide(children, batch):
        """The interpreter takes as long for a small tile as for a large one."""
        return tiles.power(children, 64), tiles.power(batch, 2048)

    if INTERPRETED:
        monkeypatch.setattr(tiles, "walk", wide)


@here
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in STRUCTURES]
)
def test_samples_follow_the_distribution(name):
    """Without evidence, and the posterior with some."""
    circuit, exact, x = built(name, zeros=True)
    joint = exact(x.cpu()).detach().exp()
    found = circuits.sample(circuit, COUNT, 0).cpu()
    assert_frequencies(found, x.cpu(), joint, COUNT)
    missing = half_missing(x.cpu())[0]
    given = x.cpu()[joint.argmax()][None]
    probability = torch.where(completions_of(given, missing, x.cpu()), joint, 0)
    found = circuits.conditional_sample(
        circuit, given.expand(GIVEN, -1).to(DEVICE), missing.to(DEVICE), 7
    )
    assert_frequencies(found.cpu(), x.cpu(), probability / probability.sum(), GIVEN)


@here
@pytest.mark.slow
def test_samples_of_sums_in_parts_and_of_shared_products(monkeypatch):
    monkeypatch.setattr(lowering, "LEAST_CHILDREN", 1)
    circuit, exact, x = built("pd", zeros=True)
    assert any(sums.parts for layer in circuit.engine().tables.layers for sums in layer)
    joint = exact(x.cpu()).detach().exp()
    assert_frequencies(circuits.sample(circuit, COUNT, 1).cpu(), x.cpu(), joint, COUNT)
    root = rat_spn(20, 4, Categorical(2), depth=2, num_repetitions=2)
    circuit, exact, _ = built((root, [2]))
    assert any(circuit.engine().tables.products)
    assert_marginals(circuit, exact, 200)


def assert_marginals(circuit, exact, count):
    """Of every variable, within five deviations, without evidence and with some."""
    x = circuits.sample(circuit, count, 3)
    missing = torch.ones_like(x[0]).bool()
    for mask in (missing, torch.arange(x.shape[1], device=x.device) % 3 > 0):
        given = x[:1].expand(count, -1).contiguous()
        found = circuits.conditional_sample(circuit, given, mask, 5)
        wanted = circuits.conditional(exact, given[:1].cpu(), mask.cpu())[0]
        frequency = torch.nn.functional.one_hot(found, wanted.shape[1]).double().mean(0).cpu()
        deviation = (wanted * (1 - wanted) / count).sqrt()
        assert ((frequency - wanted).abs() <= 5 * deviation + 1e-9).all()


@here
def test_seeds(monkeypatch):
    """The same seed gives a sample the same values, in whatever batch; another one others."""
    monkeypatch.setattr(tiles, "walk", lambda children, batch: (2, 16))  # several tiles of both
    circuit, _, x = built("hmm")
    found = circuits.sample(circuit, 50, 3)
    assert torch.equal(found, circuits.sample(circuit, 50, 3))
    assert torch.equal(found[:20], circuits.sample(circuit, 20, 3))
    assert not torch.equal(found, circuits.sample(circuit, 50, 4))
    assert len(found.unique(dim=0)) > 20
    generator = torch.Generator(DEVICE).manual_seed(3)
    assert torch.equal(found, circuits.sample(circuit, 50, generator))
    assert not torch.equal(found, circuits.sample(circuit, 50, generator))
    nothing = torch.zeros_like(x[:8]).bool()
    assert torch.equal(circuits.conditional_sample(circuit, x[:8], nothing, 0), x[:8])
    assert circuits.conditional_sample(circuit, x[:0], nothing[:0], 0).shape == (0, 4)
    assert circuits.sample(circuit, 0, 0).shape == (0, 4)


@here
@pytest.mark.filterwarnings("error::rightfast.runtime.NotRecorded")
def test_recorded_walks_do_not_freeze_the_seed():
    root, _ = STRUCTURES["hclt-data"]()
    one, other = (
        compile(root, graphs=graphs, precision="ieee").to(DEVICE) for graphs in (True, False)
    )
    x = circuits.sample(other, 30, 0)
    missing = half_missing(x.cpu()).to(DEVICE)
    for seed in range(3):
        for circuit_samples in (
            lambda c: circuits.sample(c, 30, seed),
            lambda c: circuits.conditional_sample(c, x, missing, seed),
            lambda c: circuits.conditional_sample(c, x[:9], missing[0], seed),
        ):
            assert torch.equal(circuit_samples(one), circuit_samples(other))
    assert sum(space.descend.replays for space in one.engine()._free) == 6


@here
def test_impossible_evidence_and_what_is_no_value():
    circuit, exact, x = built("hmm", zeros=True, share=0.6)
    impossible = x[~exact(x.cpu()).detach().isfinite().to(DEVICE)]
    nothing = torch.zeros_like(impossible).bool()
    assert (circuits.conditional_sample(circuit, impossible, nothing, 0) == -1).all()
    assert circuits.conditional(circuit, impossible, nothing).isnan().all()
    wrong = x[:3].clone()
    wrong[1, 0] = 3
    found = circuits.conditional_sample(circuit, wrong, torch.zeros_like(wrong).bool(), 0)
    assert (found[1] == -1).all()


@here
@pytest.mark.parametrize(
    "name", ["ragged", *(pytest.param(n, marks=pytest.mark.slow) for n in ("hmm", "mixed-leaves"))]
)
def test_the_others(name):
    circuit, exact, x = built(name, zeros=True)
    far = x.cpu()[:20]
    missing = half_missing(far)
    near = (x[:20], missing.to(DEVICE))
    close(circuits.marginal(circuit, *near), circuits.marginal(exact, far, missing))
    wanted = circuits.conditional(exact, far, missing)
    found = circuits.conditional(circuit, *near).cpu()
    assert torch.equal(found.isnan(), wanted.isnan())
    close(found.nan_to_num(), wanted.nan_to_num())
    found = circuits.top_down_probabilities(circuit)
    close(found[2:], circuits.top_down_probabilities(exact)[2:])


@here
@pytest.mark.parametrize(
    "name",
    [
        "mixed-leaves",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("hmm", "ragged", "shared")),
    ],
)
def test_maxima(name):
    """From an "mpe" pass, against one by torch."""
    circuit, exact, x = built(name, zeros=True)
    x = x[:20]
    missing = half_missing(x.cpu())
    found = exact.read(x.cpu(), missing)
    maxima = exact.run(found, Pass("mpe", keep=False))
    with torch.no_grad():
        circuit(x, "mpe", missing_mask=missing.to(DEVICE))
    values = circuit.state.walk(None).cpu()
    assert torch.equal((values == -1).all(1), maxima.log_likelihood().isneginf())
    assert torch.equal((values == -1).any(1), maxima.log_likelihood().isneginf())
    possible = (values >= 0).all(1)
    reached = exact(values[possible], "mpe").detach()
    close(reached, maxima.log_likelihood()[possible])
    assert torch.equal(values[possible][~missing[possible]], x.cpu()[possible][~missing[possible]])
    assert topdown.decode(maxima).dtype == values.dtype


@here
def test_values_of_all_kinds():
    leaves = [Gaussian(), Bernoulli(), DiscretizedLogistic(4), Categorical(3), Gaussian()]
    root = hclt(parents=[-1, 0, 0, 1, 1], num_latents=3, dist=leaves)
    circuit, exact, _ = built((root, [2]), zeros=True)
    found = circuits.sample(circuit, COUNT, 0)
    other = circuits.sample(exact, 20000, 0)
    assert found.dtype == other.dtype
    for v in range(5):
        moments = other[:, v].mean(), other[:, v].std()
        assert abs(found[:, v].cpu().mean() - moments[0]) < 0.12 * moments[1]
        assert abs(found[:, v].cpu().std() - moments[1]) < 0.12 * moments[1]
    for v in (1, 2, 3):
        assert set(found[:, v].tolist()) <= set(other[:, v].tolist())
    missing = torch.tensor([True, False, True, False, True], device=DEVICE)
    filled = circuits.conditional_sample(circuit, found[:50].float(), missing, 1)
    assert torch.equal(filled[:, ~missing], found[:50].float().double()[:, ~missing])
    assert not torch.equal(filled[:, 0], found[:50, 0])
    again = circuits.conditional_sample(circuit, found[:50].float(), missing, 1)
    assert torch.equal(filled, again)


@here
def test_columns_that_no_input_has():
    circuit = compile(
        multiply(inputs(0, 1, Categorical(2)), inputs(2, 1, Categorical(2))), precision="ieee"
    ).to(DEVICE)
    found = circuits.sample(circuit, 20, 0)
    assert (found[:, 1] == -1).all()
    assert (found[:, 0] >= 0).all()
    given = circuits.conditional_sample(circuit, found, torch.zeros_like(found).bool(), 0)
    assert torch.equal(given, found)


@pytest.mark.skipif(INTERPRETED, reason="runs above")
@pytest.mark.parametrize("part", ["not slow", pytest.param("slow", marks=pytest.mark.slow)])
def test_interpreted(part):
    again_interpreted(__file__, part)
