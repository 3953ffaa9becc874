"""Is the answer right? Asked before and after timing, always on fresh draws, in poisoned memory.

One `Verifier` serves one case in one test. Expected answers are kept in a cache that the session
shares, so that the backends of a case pay for the reference once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import bits, counters, leaves, trees
from .case import DRAWS, Call, PerfCase
from .compare import Accuracy, Mismatch, Tolerance, as_tensor, compare
from .errors import CaseError
from .evaluate import Answer, dtypes_of
from .poison import poisoned
from .reference import ABSENT, Expected, Slopes, allowed_dtypes, check_response, expect

if TYPE_CHECKING:
    from torch import Tensor

# Called around user code, so that its time is not counted as the suite's.
Timed = Callable[..., Any]


class Verifier:
    """Checks one backend of one case.

    Args:
        case: the case.
        ask: the backend's answer to a call.
        seed: of the case, the same for all of its backends.
        cache: shared by the backends of one case; emptied when the case changes.
        users: calls user code and counts its time.
        prepare: see `Backend`.
    """

    def __init__(
        self,
        case: PerfCase,
        ask: Callable[[Call], Answer],
        seed: int,
        cache: dict[object, Any],
        users: Timed,
        prepare: Callable[..., tuple[Any, ...]] | None = None,
    ) -> None:
        self.prepare = prepare
        self.case, self.ask, self.seed = case, ask, seed
        self.cache, self.users = cache, users
        self.tolerance = Tolerance(case.rtol, case.atol)
        self.accuracy = Accuracy()
        self.fingerprint = ""
        # Earlier results and their copies: no later call may change them.
        self.held: list[tuple[Answer, Answer]] = []
        self.right: dict[int, Answer] = {}  # by draw: copies of answers that were judged right
        self.known: Mapping[int, tuple[str, str]] = {}  # by draw: see `digests`
        self.errors: dict[str, float] = {}  # error to float64 by input family
        self.worst = 0.0  # worst element over the rms, of all draws
        self.answers: dict[str, Any] | None = None  # a dict here keeps copies of the answers

    def draw(self, number: int, family: str | None = None) -> Call:
        seed = self.seed * DRAWS + number
        if family is not None:
            return self.users(self.case.draw_family, family, seed)  # type: ignore[no-any-return]
        return self.users(self.case.draw, seed)  # type: ignore[no-any-return]

    def own(self, number: int, family: str | None = None) -> Call:
        """A draw in the backend's own layout."""
        call = self.draw(number, family)
        if self.prepare is None:
            return call
        return Call(self.users(self.prepare, *call.args, **call.kwargs))

    def expected(self, number: int, family: str | None = None) -> Expected | None:
        """The reference's answer to a draw, or None if the case has only a check."""
        if self.case.reference is None:
            return None
        if not self.fingerprint:
            self.fingerprint = bits.fingerprint(self.draw(0))
        key, known = (self.fingerprint, number, family), (self.fingerprint, "dtypes")
        if key not in self.cache:
            call = self.draw(number, family)
            dtypes = self.cache.get(known) or (self.users(allowed_dtypes, self.case, call),)
            found = self.users(expect, self.case, call, *dtypes)
            if known not in self.cache:  # after the guard, which names the operator
                self.users(check_response, self.case, call)
            # Kept only now: an error of the reference meets every backend.
            self.cache[known], self.cache[key] = dtypes, found
        return self.cache[key]  # type: ignore[no-any-return]

    def trust(self, known: Mapping[int, tuple[str, str]]) -> None:
        """Another process has judged the reference itself; here it only has to compute, and only
        for answers that are not, bit for bit, one that was `known` to be right there.

        `known`: as that process's `digests` gave them; dtypes are judged by them alone.
        """
        self.known = known
        self.fingerprint = self.fingerprint or bits.fingerprint(self.draw(0))
        self.cache.setdefault((self.fingerprint, "dtypes"), (None,))

    def before(self) -> Mismatch | None:
        """All checks that come before timing."""
        self.held = []
        self._differing_draws()
        for number in (0, 1):
            if wrong := self._once(number):
                return wrong
        wrong = self._same_address() or self._families() or self._reused()
        return wrong or (None if self.case.vary else self._static_memory())

    def _differing_draws(self) -> None:
        """Equal draws would hide an answer that is returned forever."""
        if not (self.case.vary and self.case.draws_itself):
            return
        first, second = self.draw(0), self.draw(1)
        if dtypes_of(first.tree) and bits.fingerprint(first) == bits.fingerprint(second):
            raise CaseError(
                "inputs= gives the same values for every draw",
                expected="draws from the generator that it is called with",
                got=f"equal draws, fingerprint {bits.fingerprint(first)}",
                remedy="torch.randn(..., generator=generator), or vary=False if there is one only",
            )

    def after(self, kept: list[tuple[int, Answer]]) -> Mismatch | None:
        """Check what timed rounds returned, then one call on a fresh draw."""
        for number, found in kept:
            if wrong := self.judge(found, number):
                return Mismatch(wrong.where, f"in a timed round: {wrong.what}")
        return self._once(2) or self._reused()

    def cached(self) -> Mismatch | None:
        """The same inputs once more must cost as much, or timing them measures a look-up.

        Modules stay as they are: what they set up in their first call is theirs to keep.
        """
        modules = self.own(3)
        self.users(self.ask, modules)
        for number in (4, 5):
            fresh = _keep_modules(modules, self.own(number))
            again = _keep_modules(modules, self.own(number)) if self.case.mutates else fresh
            first = self.users(counters.work, self.ask, fresh)
            second = self.users(counters.work, self.ask, again)
            # Where code waits for a clock, calls differ by chance; a look-up saves most of them.
            if second[0] >= first[0] and second[1] >= 0.9 * first[1]:
                return None  # a difference that comes once is no cache
        what = "operators" if second[0] < first[0] else "calls"
        index = 0 if second[0] < first[0] else 1
        cost = f"fresh inputs cost {first[index]} {what}, the same ones again {second[index]}"
        return Mismatch("output", f"{cost}: the answer is cached")

    def judge(self, found: Answer, number: int, family: str | None = None) -> Mismatch | None:
        """Compare an answer, which no later call can change, to the one expected for a draw."""
        if family is None and number in self.right and bits.identical(found, self.right[number]):
            return None  # comparing once more in float64 would cost ten times as much
        kinds, digest = self.known.get(number, ("", "")) if family is None else ("", "")
        if kinds and bits.kinds_of(found) != kinds:
            return Mismatch("output", "another structure, dtype or shape than in the first process")
        again = bool(digest) and bits.digest_of(found) == digest
        wrong = None if again else self._judge(found, number, family)
        if wrong is None and family is None:
            self.right[number] = found
        return wrong

    def digests(self) -> dict[int, tuple[str, str]]:
        """Kinds and digests of the right answers, for `trust` in another process."""
        return {n: (bits.kinds_of(one), bits.digest_of(one)) for n, one in self.right.items()}

    def _judge(self, found: Answer, number: int, family: str | None) -> Mismatch | None:
        wanted = self.expected(number, family)
        if wanted is None:
            return self._property(found, number, family)
        wrong: Mismatch | None = None
        if wanted.output is not ABSENT:
            wrong = self._compare(found.output, wanted.output, wanted.dtypes, "output")
        for key, value in wanted.mutated.items():
            name = f"argument {key!r}"
            wrong = wrong or self._compare(found.mutated[key], value, None, name)
        for name, gradient in wanted.gradients.items():
            wrong = wrong or self._gradient(found.gradients.get(name), gradient, name)
        return wrong

    def _compare(self, got: Any, wanted: Any, dtypes: Any, name: str) -> Mismatch | None:
        wrong, accuracy = compare(got, wanted, dtypes, self.tolerance, name)
        self.accuracy = self.accuracy.merge(accuracy)
        return wrong

    def _property(self, found: Answer, number: int, family: str | None) -> Mismatch | None:
        assert self.case.check is not None
        call = self.draw(number, family)
        args = [found.mutated.get(index, arg) for index, arg in enumerate(call.args)]
        kwargs = {name: found.mutated.get(name, arg) for name, arg in call.kwargs.items()}
        verdict = self.users(self.case.check, found.output, *args, **kwargs)
        if verdict is None or verdict is True:
            return None
        what = f"check returned {verdict!r}" if verdict is False else str(verdict)
        return Mismatch("output", what)

    def _gradient(self, got: Tensor | None, wanted: Any, name: str) -> Mismatch | None:
        where = f"gradient of {name}"
        if got is None:
            nothing = wanted is None or (not isinstance(wanted, Slopes) and not wanted.any())
            flat = isinstance(wanted, Slopes) and not any(wanted.values)
            return None if nothing or flat else Mismatch(where, "no gradient was computed")
        if isinstance(wanted, Slopes):
            return self._slopes(got, wanted, where)
        if wanted is None:  # not `got * 0`: NaN times 0 is NaN, and would meet itself
            wanted = got.new_zeros(got.shape)
        return self._compare(got, wanted, None, where)

    def _slopes(self, got: Tensor, wanted: Slopes, where: str) -> Mismatch | None:
        import torch

        plain = as_tensor(got)
        shape = wanted.directions[0].shape
        if plain is None or plain.shape != shape:
            return Mismatch(where, f"expected shape {tuple(shape)}, got {tuple(got.shape)}")
        flat = plain.to(wanted.directions[0].dtype).reshape(-1)
        mine = [torch.vdot(flat, d.reshape(-1)).real.item() for d in wanted.directions]
        scale = max(map(abs, wanted.values))
        # Errors of the elements average out along a random direction.
        limit = max(2 * self.tolerance.relative(plain.dtype), 1e-6) * scale + self.case.atol
        for slope, value in zip(mine, wanted.values):
            if not abs(slope - value) <= limit:
                what = f"along a random direction expected {value:.9g}, got {slope:.9g}"
                return Mismatch(where, what)
        error = max(abs(a - b) for a, b in zip(mine, wanted.values)) / scale if scale else 0.0
        self.accuracy = self.accuracy.merge(Accuracy(error, error))
        return None

    def _once(self, number: int, family: str | None = None) -> Mismatch | None:
        """One call on a draw: right, and inputs left alone. The answer is held."""
        call, pristine = self.own(number, family), self.own(number, family)
        with poisoned():
            found = self.users(self.ask, call)
            copies = found.snapshot()  # at once: work that is done later does not count
        self.accuracy = Accuracy()
        wrong = self.judge(copies, number, family)
        self._note(family or f"draw {number}", copies)
        if wrong:
            return (
                wrong if family is None else Mismatch(wrong.where, f"family {family}: {wrong.what}")
            )
        if family is None:
            self.held.append((found, copies))
        return self._mutated_input(call, pristine)

    def _reused(self) -> Mismatch | None:
        for held, copies in self.held:
            if changed := bits.first_difference(held, copies):
                return Mismatch(changed, "a later call changed this result: its memory was reused")
        return None

    def _static_memory(self) -> Mismatch | None:
        """Where all draws are equal, a result that an equal one overwrites shows only by a mark."""
        held, copies = (list(trees.leaves(vars(answer))) for answer in self.held[0])
        marked = [
            (path, tensor, kept)
            for (path, leaf), (_, copy) in zip(held, copies)
            for (_, tensor), (_, kept) in zip(leaves.tensors_of(leaf), leaves.tensors_of(copy))
            if tensor.is_floating_point() and 0 not in tensor.stride()
        ]
        for _, tensor, _ in marked:
            tensor.detach().fill_(77)
        self.users(self.ask, self.own(0))  # not judged: it may rightly return a table again
        changed = [path for path, tensor, _ in marked if (tensor != 77).any()]
        for _, tensor, kept in marked:
            tensor.detach().copy_(kept)
        if changed:
            return Mismatch(
                bits.shown(changed[0]), "a later call writes to it: its memory was reused"
            )
        return None

    def _note(self, name: str, copies: Answer) -> None:
        """Remember how accurate one draw was."""
        self.errors[name] = self.accuracy.norm
        self.worst = max(self.worst, self.accuracy.worst)
        if self.answers is not None:
            self.answers[name] = vars(copies)

    def _mutated_input(self, call: Call, pristine: Call) -> Mismatch | None:
        for key, before in pristine.tree.items():
            if key in self.case.mutates:
                continue
            if changed := bits.first_difference(call.tree[key], before):
                where = changed.replace("output", f"argument {key!r}", 1)
                return Mismatch(where, "the call changed its input (say mutates= if it should)")
        return None

    def _same_address(self) -> Mismatch | None:
        """New values in the memory of an earlier call must give their own answer."""
        # Draw 1 first: a ring of two buffers does not give each draw its old place again.
        first, fresh = self.own(1), self.own(0)
        self.users(self.ask, first)
        call = _overwritten(first, fresh)
        if call is None:
            return None
        with poisoned():
            found = self.users(self.ask, call).snapshot()
        wrong = self.judge(found, 0)
        if wrong:
            return Mismatch(
                wrong.where, f"new values at the address of an earlier call: {wrong.what}"
            )
        return None

    def _families(self) -> Mismatch | None:
        for family in self.case.families:
            if wrong := self._once(0, family):
                return wrong
        return None


def _keep_modules(old: Call, new: Call) -> Call:
    import torch

    taken = iter(list(trees.leaves(old.tree)))

    def place(leaf: Any) -> Any:
        _, mine = next(taken, (None, leaf))
        return mine if isinstance(mine, torch.nn.Module) else leaf

    return new.map(place)


def _overwritten(call: Call, fresh: Call) -> Call | None:
    """`fresh` in the memory of `call`; None if the values do not fit there.

    What holds no memory of its own, such as a number, comes from `fresh`.
    """
    import torch

    old, new = list(trees.leaves(call.tree)), list(trees.leaves(fresh.tree))
    pairs = [
        (x, y)
        for (_, a), (_, b) in zip(old, new)
        for (_, x), (_, y) in zip(leaves.tensors_of(a), leaves.tensors_of(b))
    ]
    fits = [path for path, _ in old] == [path for path, _ in new]
    if not fits or any(x.shape != y.shape or 0 in x.stride() for x, y in pairs):
        return None
    with torch.no_grad():
        for target, source in pairs:
            target.copy_(source)
    taken = iter(old)

    def place(leaf: Any) -> Any:
        _, mine = next(taken)
        return mine if leaves.holds_memory(mine) else leaf

    return fresh.map(place)
