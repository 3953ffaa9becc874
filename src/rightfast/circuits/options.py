"""`Pass`: everything that changes what a pass computes, in one hashable value."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

Algorithm = Literal["ll", "mpe", "general_ll"]


@dataclass(frozen=True)
class Pass:
    """The options of a pass; they are handed down as they are, so they can be a key.

    algorithm    "ll": log-likelihood. "mpe": maxima in place of sums. "general_ll":
                 n = (1/alpha) log sum theta^alpha exp(alpha e)
    alpha        of general_ll; 1 is "ll"
    temperature  T: parameter flows are those of theta^(1/T) exp(e/T - n_T), n_T the log of its
                 sum; "ll" only
    log_space    element flows are kept as logs, so that none underflows
    keep         whether a backward pass will follow, for which intermediate values are kept

    Raises ValueError for an unknown algorithm, numbers that are not positive, or options that
    exclude each other.
    """

    algorithm: Algorithm = "ll"
    alpha: float = 1.0
    temperature: float = 1.0
    log_space: bool = False
    keep: bool = True

    def __post_init__(self) -> None:
        if self.algorithm not in get_args(Algorithm):
            raise ValueError(
                f"algorithm must be one of {list(get_args(Algorithm))}, got {self.algorithm!r}"
            )
        for name in ("alpha", "temperature"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be a positive number, got {value!r}")
        if self.alpha != 1 and self.algorithm != "general_ll":
            raise ValueError(
                f'alpha belongs to algorithm="general_ll", got alpha={self.alpha} with '
                f"{self.algorithm!r}"
            )
        if self.temperature != 1 and self.algorithm != "ll":
            raise ValueError(
                f'a temperature belongs to algorithm="ll", got {self.temperature} with '
                f"{self.algorithm!r}"
            )
        if self.log_space and self.algorithm == "mpe":
            raise ValueError(
                'log_space has no meaning for "mpe", whose flows are weights or 0: leave it out'
            )
