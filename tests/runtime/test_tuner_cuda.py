"""The tuner on a GPU: event times, captures, and configs of a compiled kernel."""

from __future__ import annotations

import pytest
import torch

from rightfast.runtime import best_of, choices, forget_choices, launchable, pin_choices
from rightfast.runtime.trials import event_clock, wall_clock

triton = pytest.importorskip("triton", minversion="3.6", exc_type=ImportError)
tl = pytest.importorskip("triton.language")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:best_of. candidate:RuntimeWarning"),
]


@triton.jit
def sums_kernel(x, out, width, TILE: tl.constexpr, NARROW: tl.constexpr):
    """Row sums, one tile after another; NARROW rounds the running sum to bfloat16."""
    row = tl.program_id(0)
    total = tl.zeros([TILE], dtype=tl.float32)
    for start in range(0, width, TILE):
        at = start + tl.arange(0, TILE)
        total += tl.load(x + row * width + at, at < width, 0.0).to(tl.float32)
        if NARROW:
            total = total.to(tl.bfloat16).to(tl.float32)
    tl.store(out + row, tl.sum(total, 0).to(out.dtype.element_ty))


def config(tile, warps=4, narrow=False):
    launch = launchable(sums_kernel, TILE=tile, NARROW=narrow, num_warps=warps)

    def run(x):
        out = x.new_empty(len(x))
        launch((len(x),), x, out, x.shape[1])
        return out

    return run


@pytest.fixture(autouse=True)
def nothing_chosen():
    forget_choices()
    yield
    forget_choices()


@pytest.mark.parametrize("batch", [17, 33, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_config_is_less_accurate(batch, dtype):
    """Class 21: every config that may be picked, forced in turn."""
    configs = {f"{tile} by {warps}": config(tile, warps) for tile in (32, 128) for warps in (1, 4)}
    configs["narrow"] = config(32, narrow=True)
    generator = torch.Generator().manual_seed(batch)
    x = torch.rand(batch, 1000, generator=generator).to("cuda", dtype)
    exact = x.double().sum(1)

    def error(got):
        return float((got.double() - exact).norm() / exact.norm())

    options = {"key": ("sums", batch, dtype), "rtol": 0.4, "runs": 2}
    options["reference"] = lambda x: x.double().sum(1)
    base = error(configs["32 by 1"](x))
    best_of(configs, (x,), **options)
    (choice,) = choices()
    assert choice.place == torch.cuda.get_device_name()
    # Rounding the result may hide what the running sum lost.
    worse = error(configs["narrow"](x)) > 1.5 * base
    assert worse or dtype is not torch.float32
    assert ("less accurate" in choice.refused.get("narrow", "")) is worse
    for name in set(configs) - set(choice.refused):
        forget_choices()
        row = {"place": choice.place, "key": choice.key, "winner": name}
        pin_choices({"schema": 1, "choices": [row]})
        assert best_of(configs, (x,), **options) is configs[name]
        assert error(configs[name](x)) <= 1.5 * base


def test_what_is_slow_loses():
    """Times are the device's: five times the work takes more than twice as long."""

    def once(x):
        return x * 2

    def many(x):
        for _ in range(20):
            y = x * 2
        return y

    x = torch.rand(2**24, device="cuda")
    assert best_of({"many": many, "once": once}, (x,), key="work") is once
    forget_choices()
    assert best_of({"once": once, "many": many}, (x,), key="work") is once
    assert "times the fastest" in choices()[0].dropped["many"]


def test_accumulating():
    def add(x, out):
        out += x

    def add_again(x, out):
        out.add_(x)

    x, out = torch.ones(1000, device="cuda"), torch.full((1000,), 3.0, device="cuda")
    for writes in (None, [1]):
        forget_choices()
        best_of(
            {"a": add, "b": lambda x, out: out.add_(x) and None}, (x, out), key="add", writes=writes
        )
        assert torch.equal(out, torch.full_like(out, 3.0))


def test_nothing_is_tuned_inside_a_capture():
    ran = []

    def way(name):
        def run(x):
            ran.append(name)
            return x * 2

        return run

    ways = {"a": way("a"), "b": way("b")}
    x = torch.ones(8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chosen = best_of(ways, (x,), key="captured")
        y = chosen(x)
    assert ran == ["a"]
    assert choices() == []
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, 2 * x)
    best_of(ways, (x,), key="captured")
    assert len(choices()) == 1


def test_generators_are_put_back():
    def noisy(x):
        return x + torch.rand_like(x)

    x = torch.zeros(100, device="cuda")
    state = torch.cuda.get_rng_state()
    best_of({"a": noisy, "b": noisy}, (x,), key="noise")
    assert choices()[0].refused == {}
    assert torch.equal(torch.cuda.get_rng_state(), state)


def test_an_unwritten_element_shows():
    def gap(x):
        out = torch.empty_like(x)
        out[:-1] = x[:-1] * 2
        return out

    def full(x):
        out = torch.empty_like(x)
        out[:] = x * 2
        return out

    x = torch.rand(2**20, device="cuda")
    best_of({"full": full, "gap": gap}, (x,), key="gap")
    assert "1 of 1048576" in choices()[0].refused["gap"]


def test_clocks_wait_for_the_device():
    cycles = 20_000_000
    sleep = lambda: torch.cuda._sleep(cycles)  # noqa: E731
    sleep()
    for clock in (event_clock, wall_clock):
        # A GPU has less than 4 GHz.
        assert clock(sleep) > cycles / 4e9
