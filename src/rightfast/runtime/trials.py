"""Candidates on trial: run on copies, compared with the default, and timed in turn."""

from __future__ import annotations

import contextlib
import functools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from rightfast.runtime.agreement import disagreement, errors, less_accurate
from rightfast.runtime.choice import Choice
from rightfast.runtime.scratch import Scratch, mapped, tensors

SLOW = 2.0  # times the fastest: what is slower after one run is dropped
SMALL = 2**24  # bytes
AHEAD = 100_000  # cycles that the device is kept busy while the host enqueues a run

Clock = Callable[[Callable[[], Any]], float]


def wall_clock(call: Callable[[], Any]) -> float:
    """Seconds of one call on the host, with what it left to a GPU."""
    cuda: Any = torch.cuda
    wait = cuda.synchronize if cuda.is_initialized() else lambda: None
    wait()
    start = time.perf_counter_ns()
    call()
    wait()
    return (time.perf_counter_ns() - start) / 1e9


def event_clock(call: Callable[[], Any], device: str = "cuda") -> float:
    """Seconds that the current stream of a CUDA device takes for one call.

    The device is kept busy while the host enqueues: else a short kernel's time is the host's.
    """
    cuda: Any = torch.cuda
    with cuda.device(device):
        stream = cuda.current_stream()
        start, end = (cuda.Event(enable_timing=True) for _ in range(2))
        getattr(cuda, "_sleep", lambda cycles: None)(AHEAD)
    start.record(stream)
    call()
    end.record(stream)
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3


@dataclass(frozen=True)
class Rules:
    """How candidates are judged: the arguments of `best_of` of these names."""

    default: str
    writes: Sequence[int | str] | None
    reference: Callable[..., Any] | None
    rtol: float | None
    atol: float
    runs: int
    prune: bool
    clock: Clock | None


class Contest:
    """One tuning: the candidates of one key on the arguments of one call."""

    def __init__(
        self,
        candidates: Mapping[str, Callable[..., Any]],
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        rules: Rules,
        place: str,
    ) -> None:
        self.candidates = candidates
        self.rules = rules
        self.default = rules.default
        self.tolerance = rules.rtol, rules.atol
        self.scratch = Scratch(arguments, keywords, rules.writes)
        self.device = place if place.startswith("cuda") else None
        events = functools.partial(event_clock, device=place)
        self.clock = rules.clock or (events if self.device else wall_clock)
        self.seconds: dict[str, float] = {}
        self.dropped: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.poison = False
        self.wanted: Any = None
        self.exact: Any = None
        self.base: list[float] = []

    def where(self) -> str:
        """The device by its name, so that a pin of one GPU is none of another."""
        if self.device is None:
            return "cpu"
        return torch.cuda.get_device_name(self.device)

    def decide(self, key: str, where: str, faster: float) -> Choice:
        """Time all candidates; the default stays unless one takes `faster` of its time or less."""
        with _undisturbed(self.device) as rewind:
            self._first(rewind)
            for name in self.candidates:
                if name != self.default:
                    self._qualify(name, rewind)
            self._drop()
            left = [name for name in self.candidates if name in self.seconds]
            left = [name for name in left if name not in self.dropped]
            if len(left) > 1:
                self._race(left, rewind)
        limit = faster * self.seconds[self.default]
        fast = [name for name in left if name != self.default and self.seconds[name] <= limit]
        winner = min(fast, key=self.seconds.__getitem__, default=self.default)
        return self._choice(key, where, winner, pinned=False)

    def confirm(self, key: str, where: str, pinned: str) -> Choice:
        """The pinned candidate, if it agrees with the default."""
        winner = self.default
        if pinned not in self.candidates:
            self.refused[pinned] = f"it is pinned, and not among {list(self.candidates)}"
        elif pinned != self.default:
            with _undisturbed(self.device) as rewind:
                self._first(rewind, timed=False)
                if self._right(pinned, rewind, timed=False):
                    winner = pinned
        return self._choice(key, where, winner, pinned=True)

    def _choice(self, key: str, where: str, winner: str, pinned: bool) -> Choice:
        found = self.seconds, self.dropped, self.refused
        return Choice(key, where, winner, self.default, *found, pinned=pinned)

    def _first(self, rewind: Callable[[], None], timed: bool = True) -> None:
        """The default: the answer that all others must give, and its first time."""
        self.wanted = self._kept(self._run(self.default, rewind))
        self._accuracy(rewind)
        # What is only written is filled with NaN from here on: an answer that an earlier call
        # left there would pass for a candidate's own.
        self.poison = self.scratch.declared
        if not timed and not self.poison:
            return
        try:
            self.seconds[self.default], again = self._timed(self.default, rewind)
            if self._differs(again):
                self.poison = False  # it is read, too
        except Exception:
            if not self.poison:
                raise
            self.poison = False
            self.seconds[self.default], _ = self._timed(self.default, rewind)

    def _accuracy(self, rewind: Callable[[], None]) -> None:
        if self.rules.reference is not None:
            self.scratch.reset()
            rewind()
            exact = self.rules.reference(*self.scratch.arguments, **self.scratch.keywords)
            self.exact = self._kept(exact)
            self.base = errors(self._answer(self.wanted), self.exact)

    def _qualify(self, name: str, rewind: Callable[[], None]) -> None:
        """Once untimed, once timed; either answer must be right."""
        if self._right(name, rewind, timed=False):
            self._right(name, rewind, timed=True)

    def _right(self, name: str, rewind: Callable[[], None], timed: bool) -> bool:
        """Run a candidate and compare; what failed is refused."""
        self._soil()
        try:
            if timed:
                taken, found = self._timed(name, rewind)
            else:
                taken, found = None, self._run(name, rewind)
            why = self._differs(found)
            if not why and self.rules.reference is not None:
                why = less_accurate(errors(self._answer(found), self.exact), self.base)
                why = why and f"less accurate: {why}"
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        if why:
            self.refused[name] = f"{why} (second run)" if timed else why
        elif taken is not None:
            self.seconds[name] = taken
        return not why

    def _drop(self) -> None:
        fastest = min(self.seconds.values())
        for name, taken in self.seconds.items():
            if self.rules.prune and name != self.default and taken > SLOW * fastest:
                self.dropped[name] = f"{taken / fastest:.1f} times the fastest"

    def _race(self, left: list[str], rewind: Callable[[], None]) -> None:
        """The usual runs, in turn, beginning with another one each time: drift meets all alike."""
        taken: dict[str, list[float]] = {name: [] for name in left}
        for turn in range(self.rules.runs):
            for number in range(len(left)):
                name = left[(number + turn) % len(left)]
                taken[name].append(self._timed(name, rewind)[0])
        self.seconds.update({name: statistics.median(found) for name, found in taken.items()})

    def _run(self, name: str, rewind: Callable[[], None]) -> tuple[Any, Any]:
        """One call on copies that are as the caller's tensors are; what it returned and wrote."""
        self.scratch.reset(self.poison)
        rewind()
        result = self.candidates[name](*self.scratch.arguments, **self.scratch.keywords)
        return result, self.scratch.written

    def _timed(self, name: str, rewind: Callable[[], None]) -> tuple[float, tuple[Any, Any]]:
        results: list[Any] = []
        candidate, scratch = self.candidates[name], self.scratch
        scratch.reset(self.poison)
        rewind()
        taken = self.clock(
            lambda: results.append(candidate(*scratch.arguments, **scratch.keywords))
        )
        return taken, (results[-1], scratch.written)

    def _differs(self, found: tuple[Any, Any]) -> str:
        """How a run's result, or what it wrote, differs from the default's."""
        why = disagreement(found[0], self.wanted[0], *self.tolerance)
        if why:
            return why
        why = disagreement(found[1], self.wanted[1], *self.tolerance)
        return why and f"in what is written: {why}"

    def _answer(self, found: Any) -> Any:
        """What a reference speaks of: the result, or, if there is none, what was written."""
        return found[1] if found[0] is None else found[0]

    def _kept(self, found: Any) -> Any:
        """A copy that later runs do not write to."""
        return mapped(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, found)

    def _soil(self) -> None:
        """Overwrite the memory that the next result will have, so that a gap in it shows.

        An allocator hands out what was freed last, or another block of that size: there are
        several of a small one. Bytes of 255 are NaN in every float, and -1.
        """
        found = [leaf for leaf in tensors(self.wanted[0]) if leaf.layout is torch.strided]
        several = [leaf for leaf in found for _ in range(4 if leaf.nbytes < SMALL else 1)]
        byte = torch.uint8
        blocks = [torch.empty(leaf.nbytes, dtype=byte, device=leaf.device) for leaf in several]
        for block in blocks:
            block.fill_(255)


@contextlib.contextmanager
def _undisturbed(device: str | None) -> Iterator[Callable[[], None]]:
    """Without gradients, and with the random generators put back; yields what rewinds them."""
    with torch.no_grad(), torch.random.fork_rng(devices=[device] if device else []):
        host = torch.get_rng_state()
        state = torch.cuda.get_rng_state(device) if device else None

        def rewind() -> None:
            torch.set_rng_state(host)
            if state is not None:
                torch.cuda.set_rng_state(state, device or "cuda")

        yield rewind
