"""What a user writes: a case (inputs and their reference) and the backends that compute it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from . import leaves, trees
from .errors import CaseError
from .families import FAMILIES

if TYPE_CHECKING:
    from torch import Generator

    from .triton_aot import KernelSpec

Bytes = int | Callable[..., int]


@dataclass(frozen=True)
class Call:
    """One set of arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)

    @property
    def tree(self) -> dict[object, Any]:
        """Positional arguments by index, keyword arguments by name."""
        named: dict[object, Any] = dict(enumerate(self.args))
        return named | self.kwargs

    def map(self, function: Callable[[Any], Any]) -> Call:
        return Call(trees.map_leaves(function, self.args), trees.map_leaves(function, self.kwargs))


@dataclass(frozen=True)
class PerfCase:
    """Inputs, the reference that judges every backend, and what is known of the work.

    Args:
        inputs: called with a seeded CPU `torch.Generator`; returns the arguments: a tuple, a dict
            of keyword arguments, or one value. Called anew for each fresh draw.
        reference: the right answer, computed from the same inputs in float64. It may use numpy.
            For a case with `mutates` it returns the new values, or mutates its own arguments.
        check: a property in place of a reference: `check(output, *args, **kwargs)` returns None or
            True if all is well, False or a message if not. Arguments that `mutates` names come as
            the call left them.
        families: further inputs, verified but not timed: names of built-in families (see
            `pytest_rightfast.families`), or a mapping from a name to an `inputs` function.
        mutates: positions or names of the arguments that the function changes in place.
        backward: `"only"` judges and times the gradient alone, `"with_forward"` both together.
        output: picks from what the function returned the part that is judged.
        rtol: relative tolerance of one element; by default it depends on the output's dtype.
        atol: absolute tolerance, added; 0 by default.
        moved_bytes: bytes that must move, read plus written, as a number or a function of the
            arguments. Shown as GB/s and as percent of `copy_` of the same bytes.
        flops: arithmetic operations, likewise.
        vary: False if given tensors must not be drawn anew (sorted, symmetric, CSR indices).
        sync: waits for the device, for frameworks that torch does not know.
        before: `before(*args, **kwargs)` runs before every timed or counted call, outside the
            clock: it puts the world where the call should find it (files out of memory, say).
        kernels: Triton kernels whose machine code is counted, compiled ahead (no GPU needed).
    """

    inputs: Callable[[Generator], Any] | None = None
    reference: Callable[..., Any] | None = None
    check: Callable[..., Any] | None = None
    families: Sequence[str] | Mapping[str, Callable[[Generator], Any]] = ()
    mutates: Sequence[int | str] = ()
    backward: Literal["only", "with_forward"] | None = None
    output: Callable[[Any], Any] | None = None
    rtol: float | None = None
    atol: float = 0.0
    moved_bytes: Bytes | None = None
    flops: Bytes | None = None
    vary: bool = True
    sync: Callable[[], None] | None = None
    before: Callable[..., Any] | None = None
    kernels: Sequence[KernelSpec] = ()

    def draw(self, seed: int) -> Call:
        """The arguments of draw number `seed`."""
        if self.inputs is None:
            raise CaseError(
                "the case has no inputs",
                expected="perf(function, *args, ...), or a case with inputs=",
                remedy="give the arguments, or PerfCase(inputs=lambda generator: (...,))",
            )
        # Cloned: a function that hands out one tensor again and again would alias the draws.
        return _as_call(self.inputs(_generator(seed))).map(leaves.clone)

    @property
    def states_work(self) -> bool:
        return self.moved_bytes is not None or self.flops is not None

    def work(self, call: Call) -> tuple[int | None, int | None]:
        """Bytes and operations of a call, None where the case does not state them."""

        def amount(stated: Bytes | None) -> int | None:
            return int(stated(*call.args, **call.kwargs)) if callable(stated) else stated

        return amount(self.moved_bytes), amount(self.flops)

    @property
    def draws_itself(self) -> bool:
        """Whether `inputs=` was written by the user, not made from given arguments."""
        return not isinstance(self.inputs, _GivenInputs)

    def draw_family(self, name: str, seed: int) -> Call:
        """The arguments of one verified-only family."""
        if isinstance(self.families, Mapping):
            return _as_call(self.families[name](_generator(seed))).map(leaves.clone)
        return self.draw(seed).map(FAMILIES[name])


# The names that `perf(function, *args, ...)` keeps for itself; all others go to the function.
RESERVED = frozenset(f.name for f in fields(PerfCase)) | {"case"}


def build_case(args: tuple[Any, ...], keywords: dict[str, Any]) -> PerfCase:
    """The case of one `perf(...)` call: reserved keywords, the rest is the function's."""
    own = {name: value for name, value in keywords.items() if name in RESERVED}
    rest = {name: value for name, value in keywords.items() if name not in RESERVED}
    case = own.pop("case", PerfCase())
    if not isinstance(case, PerfCase):
        raise CaseError(
            "case= is not a PerfCase",
            expected="PerfCase(...)",
            got=repr(case),
            remedy="write case=PerfCase(inputs=..., reference=...)",
        )
    if args or rest:
        if case.inputs is not None or "inputs" in own:
            raise CaseError(
                "both arguments and inputs= were given",
                expected="one of them",
                got=f"{len(args)} arguments, keywords {sorted(rest)}, and inputs=",
                remedy="bind constants with functools.partial or inside inputs=",
            )
        own["inputs"] = _GivenInputs(Call(args, rest), bool(own.get("vary", case.vary)))
    case = replace(case, **own)
    _check(case, rest)
    return case


@dataclass(frozen=True)
class _GivenInputs:
    """Draws from arguments that were given as they are; draw 0 keeps their values."""

    given: Call
    vary: bool

    def __call__(self, generator: Generator) -> Call:
        if not self.vary or generator.initial_seed() % DRAWS == 0:
            return self.given.map(leaves.clone)
        return self.given.map(lambda leaf: leaves.vary(leaf, generator))


# Seeds are `case seed * DRAWS + number of the draw`.
DRAWS = 1024


def _generator(seed: int) -> Generator:
    import torch

    return torch.Generator().manual_seed(seed)


def _as_call(drawn: Any) -> Call:
    if isinstance(drawn, Call):
        return drawn
    if isinstance(drawn, Mapping):
        return Call((), dict(drawn))
    return Call(drawn) if isinstance(drawn, tuple) else Call((drawn,))


def _misspelt(rest: Iterable[str]) -> str:
    """A hint at keywords that went to the function but look like the case's own."""
    close = {name: difflib.get_close_matches(name, RESERVED, 1) for name in rest}
    hints = [f"{name}= (did you mean {near[0]}=?)" for name, near in close.items() if near]
    return "".join(f", but {hint}" for hint in hints)


def _check(case: PerfCase, rest: Iterable[str]) -> None:
    for name in ("reference", "check", "inputs", "output", "sync"):
        value = getattr(case, name)
        if value is not None and not callable(value):
            raise CaseError(
                f"{name}= is not callable",
                expected="a function",
                got=repr(value),
                remedy="hand over the function itself, not what it returns",
            )
    if case.reference is None and case.check is None:
        raise CaseError(
            "the case has neither reference nor check: nothing could be verified",
            expected="reference=function computed in float64, or check=property",
            got=f"neither{_misspelt(rest)}",
            remedy="perf(fn, x, reference=torch.softmax), or perf(fn, x, check=lambda out, x: ...)",
        )
    if case.backward not in (None, "only", "with_forward"):
        raise CaseError(
            "unknown backward=",
            expected='"only" or "with_forward"',
            got=repr(case.backward),
            remedy="leave backward= out to measure the call alone",
        )
    if case.backward and case.mutates:
        raise CaseError(
            "backward= and mutates= do not go together",
            expected="a function that leaves its inputs alone, when its gradient is measured",
            got=f"mutates={tuple(case.mutates)}",
            remedy="measure them as two cases",
        )
    if isinstance(case.mutates, int | str):
        raise CaseError(
            "mutates= is not a sequence", expected="(0,)", got=repr(case.mutates), remedy="a tuple"
        )
    unknown = () if isinstance(case.families, Mapping) else set(case.families) - set(FAMILIES)
    if unknown:
        raise CaseError(
            f"unknown input families {sorted(unknown)}",
            expected=f"some of {sorted(FAMILIES)}",
            remedy="a mapping {name: function of a generator} defines your own",
        )


@dataclass(frozen=True)
class Backend:
    """One implementation. A wrong subject fails the run; a wrong peer is shown and not timed.

    Args:
        prepare: turns the case's arguments into this backend's own (numpy arrays, another layout),
            returning a tuple; neither timed nor seen by the reference.
        output: turns what it returns into the layout of the reference; not timed.
    """

    name: str
    function: Callable[..., Any]
    role: Literal["subject", "peer"] = "subject"
    prepare: Callable[..., tuple[Any, ...]] | None = None
    output: Callable[[Any], Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return self.name


def subject(function: Callable[..., Any], **layout: Any) -> Backend:
    """A backend of one's own that needs `prepare=` or `output=`; a bare function needs no such."""
    return Backend("", function, "subject", **layout)


def peer(function: Callable[..., Any], **layout: Any) -> Backend:
    """Somebody else's backend: `@pytest.mark.perf_backends(ours=f, pywt=peer(g, prepare=...))`."""
    return Backend("", function, "peer", **layout)


def backends(marked: Mapping[str, Any]) -> list[Backend]:
    """The backends named by a `perf_backends` marker, in order."""
    found = []
    for name, value in marked.items():
        if not callable(value):
            raise CaseError(
                f"backend {name!r} is not callable",
                expected="a function, subject(function) or peer(function)",
                got=repr(value),
                remedy="write name=function, without calling it",
            )
        one = value if isinstance(value, Backend) else Backend("", value)
        found.append(replace(one, name=name))
    return found
