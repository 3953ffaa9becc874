"""The fastest of several ways to compute one thing, chosen once a process.

    ways = {"rows": sum_by_rows, "blocks": sum_by_blocks}
    fastest = best_of(ways, (x, out), key=("sum", x.shape), writes=[1])
    fastest(x, out)

A candidate wins only if its answers agree with the default's and it is 10% faster: a tuner that
follows noise makes two runs of one program differ. Nothing but copies is written meanwhile, and the
random generators are put back.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch

from rightfast.runtime import pins
from rightfast.runtime.choice import Choice
from rightfast.runtime.scratch import leaves
from rightfast.runtime.trials import Clock, Contest, Rules
from rightfast.runtime.watch import watched

FASTER = 0.9  # of the default's time: what a candidate must reach to be adopted
RUNS = 10  # timed runs of each candidate that was not dropped

Candidate = Callable[..., Any]

_choices: dict[tuple[Hashable, str], Choice] = {}
_lock = threading.RLock()


def best_of(
    candidates: Mapping[str, Candidate],
    arguments: Sequence[Any] = (),
    keywords: Mapping[str, Any] | None = None,
    *,
    key: Hashable,
    default: str | None = None,
    writes: Sequence[int | str] | None = None,
    reference: Candidate | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    runs: int = RUNS,
    prune: bool = True,
    clock: Clock | None = None,
) -> Candidate:
    """The candidate to call with these arguments: the default, or one that is 10% faster.

    The first call with a key tunes; later ones look the choice up. Each candidate runs once untimed
    and once timed, on copies; both answers must agree with the default's. What took over twice the
    fastest's time is dropped, the rest and the default run `runs` times more, in turn, and their
    medians decide. Inside a capture nothing is tuned: the choice made before, or the default.

    Args:
        candidates: callables by name, alike in arguments and results.
        arguments, keywords: of the call that is about to be made. Tensors are found in lists,
            tuples and dicts; what a candidate reaches in other ways is not copied.
        key: what the choice depends on: the operation, shapes, dtypes; strings, numbers, None,
            dtypes and tuples of these. The device is part of it anyway.
        default: the name of the candidate that is right and stays when in doubt; by default the
            first.
        writes: positions and names of the arguments that a candidate changes; by default any of
            them may be, and all are copied.
        reference: the exact answer, in float64, from the same arguments. With it a candidate may
            not be less accurate than the default either (1.5 times its error).
        rtol, atol: tolerances of one element; by default 1e-11, 1e-5, 6e-3 and 4e-2 for float64,
            float32, float16 and bfloat16, and 0.
        runs: timed runs of each that is left.
        prune: False: nothing is dropped for being slow.
        clock: runs a callable and returns the seconds it took; by default CUDA events where a
            tensor lies on a CUDA device, and a wall clock elsewhere.

    Raises:
        TypeError, ValueError: an argument here is not of its kind; the default's own errors.
    """
    place = _place(arguments, keywords)
    try:
        known = _choices.get((key, place))
    except TypeError:
        pins.text(key)  # says what a key is made of
        raise
    if known is None:
        _check(candidates, default, key, runs)
        default = default or next(iter(candidates))
        if capturing():
            return candidates[default]
        rules = Rules(default, writes, reference, rtol, atol, runs, prune, clock)
        with _lock:
            known = _choices.get((key, place))
            if known is None:
                contest = Contest(candidates, arguments, keywords or {}, rules, place)
                known = _decide(contest, pins.text(key))
                _choices[key, place] = known
                _warn(known)
    try:
        return candidates[known.winner]
    except KeyError:
        raise ValueError(
            f"best_of() expected the candidates of key {key!r} again, {known.names()}, got "
            f"{list(candidates)}; give other candidates a key of their own"
        ) from None


def _decide(contest: Contest, key: str) -> Choice:
    """The pinned winner, if it is right; else the fastest."""
    where = contest.where()
    pinned = pins.winner(where, key)
    if pinned is None:
        return contest.decide(key, where, FASTER)
    return contest.confirm(key, where, pinned)


def _check(candidates: Mapping[str, Candidate], default: str | None, key: Any, runs: int) -> None:
    if not isinstance(candidates, Mapping) or not candidates:
        raise TypeError(
            f"best_of() expected candidates as a mapping from names to callables, got "
            f"{candidates!r}; name at least the default"
        )
    for name, candidate in candidates.items():
        if not isinstance(name, str) or not callable(candidate):
            raise TypeError(
                f"best_of() expected names and callables, got {name!r}: {candidate!r}; wrap "
                "what has parameters of its own in functools.partial"
            )
    if default is not None and default not in candidates:
        raise ValueError(
            f"default= expected one of {list(candidates)}, got {default!r}; name a candidate"
        )
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 1:
        raise ValueError(f"runs= expected a positive number, got {runs!r}; 10 are usual")
    pins.text(key)


def _place(arguments: Sequence[Any], keywords: Mapping[str, Any] | None) -> str:
    """The CUDA device of the first tensor that has one; else "cpu"."""
    kind = torch.Tensor
    for leaf in arguments:
        if isinstance(leaf, kind) and leaf.is_cuda:
            return f"cuda:{leaf.get_device()}"
    for leaf in leaves([list(arguments), dict(keywords or {})]):
        if isinstance(leaf, kind) and leaf.is_cuda:
            return f"cuda:{leaf.get_device()}"
    return "cpu"


def capturing() -> bool:
    """Whether a launch made now would be recorded, by CUDA or on a tape."""
    cuda: Any = torch.cuda
    return watched() or bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


def choices() -> list[Choice]:
    """What was chosen in this process, in order; `print` one to see times and reasons."""
    return list(_choices.values())


def forget_choices() -> None:
    """Tune anew from here on, and drop what was pinned."""
    with _lock:
        _choices.clear()
        pins.clear()


def export_choices(path: Any = None) -> dict[str, Any]:
    """The winners of this process, as plain data; with a path, also as JSON, written atomically.

    `pin_choices` takes either. Two runs with the same pins compare code, not choices.
    """
    return pins.export(list(_choices.values()), path)


def pin_choices(source: Any) -> int:
    """Use these winners from here on, instead of timing; returns how many there are.

    A pinned candidate runs once beside the default when its key is first met: one that is wrong or
    gone is not used, and the choice says so. Choices of these keys that were made before are
    forgotten. The environment variable RIGHTFAST_PINS names a file that is pinned at the start.

    Args:
        source: what `export_choices` returned, or the path of the file it wrote.

    Raises:
        ValueError: the source is no export, or of another version.
    """
    with _lock:
        found = pins.load(source)
        for name, choice in list(_choices.items()):
            if (choice.place, choice.key) in found:
                del _choices[name]
        return len(found)


def _warn(choice: Choice) -> None:
    for name, why in choice.refused.items():
        warnings.warn(
            f"best_of: candidate {name!r} of {choice.key} is not used: {why}",
            RuntimeWarning,
            stacklevel=3,
        )
