"""Every planted fault is caught, on every kind of output to which it applies.

The same right function serves as backend and as reference; a fault is put on top of it. Each test
also runs the function without its fault, so that a check that refuses everything fails as well.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pytest_rightfast import CaseError, StateError, WrongAnswer
from pytest_rightfast.state import restore, torch_state

Function = Callable[..., Any]


def wave(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + 0.5 * x


def total(x: torch.Tensor) -> torch.Tensor:
    return wave(x).sum()


def tree(x: torch.Tensor) -> dict[str, Any]:
    return {"a": wave(x), "d": [x.cos(), (x.square(),)]}


def transposed(x: torch.Tensor) -> torch.Tensor:
    return wave(x).t()


def block(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(12, 16, generator=torch.Generator().manual_seed(1)).to(dtype)


KINDS: dict[str, tuple[Function, Callable[[], torch.Tensor]]] = {
    "float32": (wave, block),
    "float64": (wave, lambda: block(torch.float64)),
    "float16": (wave, lambda: block(torch.float16)),
    "bfloat16": (wave, lambda: block(torch.bfloat16)),
    "complex64": (wave, lambda: torch.complex(block(), block().flip(0))),
    "scalar": (total, block),
    "scalar_input": (wave, lambda: block()[0, 0]),
    "one_element": (wave, lambda: block()[:1, 0]),
    "tree": (tree, block),
    "noncontiguous": (transposed, lambda: block().t()),
}
REAL = [name for name in KINDS if name != "complex64"]


@pytest.fixture(params=KINDS)
def right(request: pytest.FixtureRequest) -> tuple[Function, torch.Tensor]:
    function, make = KINDS[request.param]
    return function, make()


@pytest.fixture(params=KINDS)
def graded(request: pytest.FixtureRequest) -> tuple[Function, torch.Tensor]:
    function, make = KINDS[request.param]
    return function, make()


def last_leaf(change: Callable[[torch.Tensor], torch.Tensor], output: Any) -> Any:
    """`output` with `change` applied to its last leaf."""
    if isinstance(output, torch.Tensor):
        return change(output)
    return {"a": output["a"], "d": [output["d"][0], (change(output["d"][1][0]),)]}


def every_leaf(change: Callable[[torch.Tensor], torch.Tensor], output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return change(output)
    a, (d, (last,)) = output["a"], output["d"]
    return {"a": change(a), "d": [change(d), (change(last),)]}


def broken(function: Function, change: Callable[[torch.Tensor], torch.Tensor]) -> Function:
    return lambda x: last_leaf(change, function(x))


def first(tensor: torch.Tensor) -> torch.Tensor:
    """A mask of the first element."""
    mask = torch.zeros(tensor.shape, dtype=torch.bool)
    mask[(0,) * tensor.dim()] = True
    return mask


def flip_band(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() == 0:
        return -tensor
    sign = torch.ones(tensor.shape, dtype=tensor.dtype)
    sign[: max(1, tensor.shape[0] // 4)] = -1
    return tensor * sign


def leave_unwritten(tensor: torch.Tensor) -> torch.Tensor:
    result = torch.empty_like(tensor)
    rest = ~first(tensor)
    result[rest] = tensor[rest]
    return result


def put_nan(tensor: torch.Tensor) -> torch.Tensor:
    return torch.where(first(tensor), torch.nan, tensor).to(tensor.dtype)


def put_inf(tensor: torch.Tensor) -> torch.Tensor:
    return torch.where(first(tensor), torch.inf, tensor).to(tensor.dtype)


def near_zero(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 1e-6


def test_right_answers_pass(verify, right):
    function, x = right
    row = verify(function, x, reference=function)
    assert row.status == "ok"
    assert row.error is not None
    assert row.error < 0.01


@pytest.mark.parametrize("change", [flip_band, leave_unwritten, put_nan, put_inf, near_zero])
def test_wrong_values(verify, right, change):
    function, x = right
    with pytest.raises(WrongAnswer):
        verify(broken(function, change), x, reference=function)
    assert verify.row.status == "wrong"
    assert verify.row.samples == []


def test_one_unwritten_element_among_many(verify):
    """Large blocks come from mmap, small ones from malloc's lists: both are poisoned."""
    for size in (1, 7, 300, 5_000, 1_000_000):
        x = torch.rand(size) + 1
        assert verify(wave, x, reference=wave).status == "ok"
        with pytest.raises(WrongAnswer, match="1 of"):
            verify(broken(wave, leave_unwritten), x, reference=wave)


def test_mutated_input(verify, right):
    function, x = right

    def careless(x):
        result = function(x)
        x[(0,) * x.dim()] *= 1.25
        return result

    with pytest.raises(WrongAnswer, match="changed its input"):
        verify(careless, x, reference=function)


def test_first_answer_returned_forever(verify, right):
    function, x = right
    answers: list[Any] = []

    def stuck(x):
        if not answers:
            answers.append(function(x))
        return every_leaf(torch.clone, answers[0])

    with pytest.raises(WrongAnswer):
        verify(stuck, x, reference=function)


@pytest.mark.parametrize("ring", [1, 2, 3])
def test_output_buffer_reused(verify, right, ring):
    """Each result is right when it is returned, and overwritten by a later call."""
    function, x = right
    buffers = [every_leaf(torch.empty_like, function(x)) for _ in range(ring)]
    turn = iter(range(10**6))

    def reusing(x):
        buffer, result = buffers[next(turn) % ring], function(x)
        if isinstance(buffer, torch.Tensor):
            return buffer.copy_(result)
        buffer["a"].copy_(result["a"])
        buffer["d"][0].copy_(result["d"][0])
        buffer["d"][1][0].copy_(result["d"][1][0])
        return buffer

    with pytest.raises(WrongAnswer, match="memory was reused"):
        verify(reusing, x, reference=function)


def test_answers_kept_by_address(verify, right):
    """A plan or a result that is looked up by the input's address."""
    function, x = right
    known: dict[Any, Any] = {}
    held = []  # what is held cannot be handed out at the same address again

    def by_address(x):
        key = (x.data_ptr(), x.shape)
        if key not in known:
            held.append(x)
            known[key] = function(x)
        return every_leaf(torch.clone, known[key])

    with pytest.raises(WrongAnswer, match="at the address of an earlier call"):
        verify(by_address, x, reference=function)


def test_result_cached_by_value(verify, right):
    """Every answer is right; only, a timing that repeats its inputs would measure nothing."""
    function, x = right
    known: dict[Any, Any] = {}

    def cached(x):
        key = tuple(x.flatten().tolist())
        if key not in known:
            known[key] = function(x)
        return every_leaf(torch.clone, known[key])

    with pytest.raises(WrongAnswer, match="cached"):
        verify(cached, x, reference=function)


@pytest.mark.parametrize("kind", KINDS)
def test_float32_reference_torch(verify, kind):
    function, make = KINDS[kind]
    narrow = torch.complex64 if kind == "complex64" else torch.float32

    def reference(x):
        return every_leaf(torch.Tensor.double if x.is_floating_point() else wider, narrowed(x))

    def wider(x):
        return x.to(torch.complex128)

    def narrowed(x):
        return function(x.to(narrow))

    with pytest.raises(CaseError, match=r"computes below float64: aten\._to_copy"):
        verify(function, make(), reference=reference)
    assert verify.row.status == "error"


@pytest.mark.parametrize("kind", ["float32", "float16", "scalar", "tree", "noncontiguous"])
def test_float32_reference_numpy(verify, kind):
    function, make = KINDS[kind]

    def reference(x):
        narrow = torch.from_numpy(x.numpy()).numpy().astype(np.float32)
        sine = np.sin(narrow) + np.float32(0.5) * narrow
        if kind == "tree":
            return {"a": sine.astype(float), "d": [np.cos(x.numpy()), (x.numpy() ** 2,)]}
        sine = {"scalar": sine.sum(), "noncontiguous": sine.T}.get(kind, sine)
        return np.asarray(sine, dtype=np.float64)

    with pytest.raises(CaseError, match="computes below float64"):
        verify(function, make(), reference=reference)


class Scaled(torch.autograd.Function):
    """The identity, with twice its gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return 2 * gradient


@pytest.mark.parametrize("backward", ["only", "with_forward"])
class TestGradients:
    def test_right(self, verify, graded, backward):
        function, x = graded
        assert verify(function, x, reference=function, backward=backward).status == "ok"

    def test_scaled_by_two(self, verify, graded, backward):
        function, x = graded
        with pytest.raises(WrongAnswer, match="gradient of input"):
            verify(broken(function, Scaled.apply), x, reference=function, backward=backward)

    def test_never_computed(self, verify, graded, backward):
        function, x = graded
        with pytest.raises(WrongAnswer, match="no gradient was computed"):
            verify(
                lambda x: every_leaf(torch.detach, function(x)),
                x,
                reference=function,
                backward=backward,
            )

    def test_missing_for_one_leaf(self, verify, backward):
        with pytest.raises(WrongAnswer, match="gradient"):
            verify(broken(tree, torch.detach), block(), reference=tree, backward=backward)

    def test_numpy_reference(self, verify, backward):
        """No autograd in the reference: slopes along random directions judge the gradient."""

        def reference(x):
            return np.sin(x.numpy()) + 0.5 * x.numpy()

        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            x = block(dtype)
            assert verify(wave, x, reference=reference, backward=backward).status == "ok"
            with pytest.raises(WrongAnswer, match="along a random direction"):
                verify(broken(wave, Scaled.apply), x, reference=reference, backward=backward)

    def test_nan_where_the_reference_has_none(self, verify, backward):
        """The second input does not matter; its gradient is zero, not NaN."""

        class Poisonous(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, unused):
                return x.view_as(x)

            @staticmethod
            def backward(ctx, gradient):
                return gradient, gradient * torch.nan

        def reference(x, y):
            return wave(x)

        x, y = block(), block()
        assert verify(reference, x, y, reference=reference, backward=backward).status == "ok"
        with pytest.raises(WrongAnswer, match=r"gradient of input\[1\].*got nan"):
            verify(
                lambda x, y: wave(Poisonous.apply(x, y)),
                x,
                y,
                reference=reference,
                backward=backward,
            )


class Lazy(torch.Tensor):
    """Looks like its result, and computes it when somebody looks."""

    @staticmethod
    def __new__(cls, work: Callable[[], torch.Tensor], like: torch.Tensor) -> Lazy:
        made = torch.Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype)
        made.work = work
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [arg.work() if isinstance(arg, Lazy) else arg for arg in args]
        return func(*plain, **(kwargs or {}))


def test_lazy_tensor(verify, right):
    function, x = right

    def later(x):
        return last_leaf(lambda leaf: Lazy(lambda: leaf, leaf), function(x))

    with pytest.raises(WrongAnswer, match="Lazy"):
        verify(later, x, reference=function)


def test_lazy_containers(verify):
    """A dict or a list that computes its items when they are read."""

    class Items(dict):
        def items(self):
            return [(key, make()) for key, make in super().items()]

        def __getitem__(self, key):
            return super().__getitem__(key)()

    class Row(list):
        def __iter__(self):
            return (make() for make in super().__iter__())

    with pytest.raises(WrongAnswer, match="Items"):
        verify(lambda x: Items(a=lambda: wave(x)), block(), reference=lambda x: {"a": wave(x)})
    with pytest.raises(WrongAnswer, match="Row"):
        verify(lambda x: Row([lambda: wave(x)]), block(), reference=lambda x: [wave(x)])


def test_thread_that_fills_the_output_later(verify, right):
    function, x = right
    threads = []

    def later(x):
        result = function(x)
        empty = every_leaf(torch.empty_like, result)

        def fill():
            time.sleep(0.2)
            last_leaf(functools.partial(fill_first, result), empty)

        threads.append(threading.Thread(target=fill))
        threads[-1].start()
        return empty

    def fill_first(result, leaf):
        return leaf.copy_(result if isinstance(result, torch.Tensor) else result["d"][1][0])

    with pytest.raises(WrongAnswer):
        verify(later, x, reference=function)
    for thread in threads:
        thread.join()


SWITCHES: dict[str, Callable[[], Any]] = {
    "deterministic_algorithms": lambda: torch.use_deterministic_algorithms(True),
    "default_dtype": lambda: torch.set_default_dtype(torch.float64),
    "float32_matmul_precision": lambda: torch.set_float32_matmul_precision("medium"),
    "cuda_matmul_tf32": lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "cudnn_tf32": lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
    "cudnn_benchmark": lambda: setattr(torch.backends.cudnn, "benchmark", True),
    "fill_uninitialized_memory": lambda: setattr(
        torch.utils.deterministic, "fill_uninitialized_memory", False
    ),
    "autocast_cpu": lambda: torch.set_autocast_enabled("cpu", True),
    "autocast_cuda": lambda: torch.set_autocast_enabled("cuda", True),
    "grad_enabled": lambda: torch.set_grad_enabled(False),
    "anomaly_mode": lambda: torch.autograd.set_detect_anomaly(True),
    "flush_denormal": lambda: torch.set_flush_denormal(True),
    "threads": lambda: torch.set_num_threads(2),
}


@pytest.mark.parametrize("name", SWITCHES)
def test_state_switched_on_by_a_call(verify, name):
    """Named, and put back, so that it does not reach the next case."""

    def careless(x):
        SWITCHES[name]()
        return x.clone()

    before = torch_state()
    try:
        with pytest.raises(StateError, match=f"'{name}': '.* -> .*'"):
            verify(careless, block(), reference=torch.clone)
        assert torch_state() == before
    finally:
        restore(before)
    assert verify.row.status == "error"
    assert verify(wave, block(), reference=wave).status == "ok"


def test_state_switched_on_by_a_peer(verify):
    """Put back and shown; a peer does not fail the run."""
    before = torch_state()
    row = verify.peer(
        lambda x: torch.set_num_threads(2) or x.clone(), block(), reference=torch.clone
    )
    assert row.status == "error"
    assert "threads" in row.reason
    assert torch_state() == before


def test_state_switched_on_by_an_import(project):
    project.file(
        "test_loud.py",
        """
        torch.use_deterministic_algorithms(True)

        def test_loud(perf):
            perf(torch.exp, torch.randn(8), reference=torch.exp)
        """,
    )
    project.file(
        "test_quiet.py",
        """
        def test_quiet(perf):
            perf(torch.exp, torch.randn(8), reference=torch.exp)
        """,
    )
    result = project.apart()
    assert result.ret == 1
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*test_loud.py: *deterministic_algorithms*False -> True*"])


def test_state_switched_on_by_a_conftest(project):
    """Initial conftests are imported before collection begins."""
    project.file("conftest.py", "torch.set_default_dtype(torch.float64)\n")
    project.file(
        "test_quiet.py",
        """
        def test_quiet(perf):
            perf(torch.exp, torch.randn(8), reference=torch.exp)
        """,
    )
    try:
        result = project.run()
    finally:
        torch.set_default_dtype(torch.float32)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*conftest*default_dtype*torch.float32 -> torch.float64*"])
