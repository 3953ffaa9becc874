"""Every error that a user can meet, each with what was expected, what came, and what to do."""

from __future__ import annotations


class PerfError(Exception):
    """Base of all errors raised by the plugin.

    The message has up to four parts: what went wrong, `expected`, `got` and `remedy`.
    """

    def __init__(
        self, what: str, *, expected: object = None, got: object = None, remedy: str | None = None
    ) -> None:
        self.what = what
        lines = [what]
        if expected is not None:
            lines.append(f"  expected: {expected}")
        if got is not None:
            lines.append(f"  got:      {got}")
        if remedy is not None:
            lines.append(f"  remedy:   {remedy}")
        super().__init__("\n".join(lines))


class CaseError(PerfError):
    """The perf case itself is written wrong (no reference, a reserved name misused, ...)."""


class WrongAnswer(PerfError, AssertionError):
    """The measured function gave a wrong answer; it has no time."""


class ResultsError(PerfError):
    """A results file cannot be read or written."""


class StateError(PerfError):
    """Global torch state that changes numbers or time was changed behind the suite's back."""


class Unsupported(Exception):
    """Raise it inside a backend to say that it does not cover this case, and why."""
