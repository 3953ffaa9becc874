"""What a tuner decided, and why."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Choice:
    """One decision.

    Attributes:
        key: the key's text, as it is pinned.
        place: the device, by its name.
        winner, default: names of candidates.
        seconds: the time of each that was timed: the median of its runs, or its only run if it was
            dropped.
        dropped: candidates that were right and too slow to be timed further, and why.
        refused: candidates that are wrong, failed, or are pinned and gone, and why.
        pinned: the winner was not timed here.
    """

    key: str
    place: str
    winner: str
    default: str
    seconds: dict[str, float] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    pinned: bool = False

    def names(self) -> list[str]:
        """All that are known by name."""
        return list({self.default: 0, self.winner: 0, **self.seconds, **self.refused})

    def __str__(self) -> str:
        how = " (pinned)" if self.pinned else ""
        lines = [f"{self.key} on {self.place}: {self.winner}{how}, default {self.default}"]
        for name in self.names():
            words = [f"{self.seconds[name] * 1e6:.1f} us"] if name in self.seconds else []
            words += [f"dropped: {self.dropped[name]}"] if name in self.dropped else []
            words += [f"refused: {self.refused[name]}"] if name in self.refused else []
            lines.append(f"  {name}: {', '.join(words) or 'not timed'}")
        return "\n".join(lines)
