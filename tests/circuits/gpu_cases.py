"""What the tests of circuits by kernels share: a circuit, and its twin by torch in float64."""

import os
import subprocess
import sys

import pytest
import torch

from rightfast.circuits import Circuit, DiscretizedLogistic, compile, em_step, gpu
from rightfast.circuits.options import Pass
from rightfast.runtime import Tape

from .common import STRUCTURES, assignments, zero_some

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
PLAIN = Pass()
DEVICE = "cpu" if INTERPRETED else "cuda"
ON_A_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(INTERPRETED or not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SERVED = list(STRUCTURES)

# Besides "ll" and powers.
OPTIONS = [
    pytest.param(Pass("mpe"), id="mpe"),
    pytest.param(Pass(temperature=2.0), id="hot"),
    pytest.param(Pass(temperature=0.5), id="cold"),
    pytest.param(Pass(log_space=True), id="log"),
    pytest.param(Pass("general_ll", 0.5, log_space=True), id="log-power"),
    pytest.param(Pass(temperature=3.0, log_space=True), id="log-hot"),
]


interpreted = pytest.mark.skipif(not INTERPRETED, reason="not interpreted: see the last test")
here = pytest.mark.skipif(
    not (INTERPRETED or torch.cuda.is_available()), reason="not interpreted: see the last test"
)


def by_kernels(monkeypatch, recorded=False):
    """Interpreted, float32 circuits of the CPU are served by kernels, and ``recorded`` on a tape
    where they ask for it."""
    if not INTERPRETED:
        return
    from rightfast.circuits.gpu import lowering, passes

    def engine(plan, device, precision, graphs):
        return passes.Engine(plan, lowering.tables_of(plan), device, precision, graphs, Tape())

    monkeypatch.setattr(gpu, "takes", lambda device, dtype: dtype == torch.float32)
    if recorded:
        monkeypatch.setattr(gpu, "engine", engine)


def again_interpreted(file, part):
    """A file of tests in a process of its own, since Triton decides when it is imported whether to
    interpret kernels. ``part``: of the marks."""
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", part, file]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout


def built(name, zeros=False, share=0.35, **options):
    """(circuit by kernels, the same by torch in float64, all assignments)."""
    root, categories = STRUCTURES[name]() if isinstance(name, str) else name
    circuit = compile(root, **{"precision": "ieee", **options})
    if zeros:
        zero_some(circuit, 0, share)
    x = assignments(categories)
    return circuit.to(DEVICE), twin(circuit), x.to(DEVICE)


def twin(circuit):
    """By torch, on the CPU, in float64."""
    return Circuit(circuit.plan, circuit.parameters_flat.detach().cpu().double())


def close(found, wanted, tolerance=2e-5):
    """Equal to a tolerance; -inf only where -inf is expected; NaN nowhere."""
    found = found.detach().cpu().double()
    assert found.shape == wanted.shape
    assert not found.isnan().any()
    torch.testing.assert_close(found, wanted.detach(), rtol=tolerance, atol=tolerance)


def real_rows(rows):
    """Without the two constant ones, which kernels do not write."""
    return rows[2:]


def check(circuit, exact, x, missing=None, weights=None, tolerance=2e-5, options=PLAIN):
    """Values, rows, flows of rows and parameters, of a forward and a backward pass."""
    names = ("algorithm", "alpha", "temperature")
    given = {name: getattr(options, name) for name in names}
    far = None if missing is None else missing.cpu()
    with torch.no_grad():
        found = circuit(x, missing_mask=missing, **given)
        wanted = exact(x.cpu(), missing_mask=far, **given)
    assert type(circuit.state).__module__ == "rightfast.circuits.gpu.state"
    close(found, wanted, tolerance)
    close(real_rows(circuit.state.n), real_rows(exact.state.n), tolerance)
    rows = circuit.backward(weights, log_space=options.log_space).rows
    far = None if weights is None else weights.cpu()
    wanted_rows = exact.backward(far, log_space=options.log_space).rows
    close(real_rows(rows), real_rows(wanted_rows), tolerance)
    close(circuit.flows, exact.flows, tolerance)


def check_derivative(circuit, exact, x, missing=None, tolerance=2e-5, algorithm="ll"):
    """Of a weighted sum of log-likelihoods, by every parameter."""
    weights = torch.linspace(0.5, 2, len(x), dtype=torch.float64)
    for one in (circuit, exact):
        one.parameters_flat.grad = None
        given = x if one is circuit else x.cpu()
        mask = missing if missing is None or one is circuit else missing.cpu()
        values = one(given, algorithm, missing_mask=mask)
        values = torch.where(values.isneginf(), 0, values)
        (values * weights.to(values)).sum().backward()
    grad, wanted = circuit.parameters_flat.grad, exact.parameters_flat.grad
    close(grad, wanted, tolerance * float(wanted.abs().max()))


def check_em(circuit, exact, steps=2, tolerance=2e-5):
    """M-steps with what `check` has left in the flows; the twin then goes on from the same place.

    A discretised logistic's takes steps of a search, which end elsewhere in float32.
    """
    if any(isinstance(family.dist, DiscretizedLogistic) for family in circuit.plan.inputs):
        tolerance = 5e-3
    for step_size, pseudocount, keep in [(1.0, 0.0, True), (0.3, 0.2, True), (0.5, 0.1, False)][
        :steps
    ]:
        for one in (circuit, exact):
            em_step(one, step_size, pseudocount, keep)
        close(circuit.parameters_flat, exact.parameters_flat, tolerance)
        with torch.no_grad():
            exact.parameters_flat.copy_(circuit.parameters_flat)
