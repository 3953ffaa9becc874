"""Checks that the structures share."""

from collections.abc import Sequence

from rightfast.circuits.leaves.base import Distribution


def positive(name: str, value: object, least: int = 1) -> int:
    """The value; TypeError unless it is an int, ValueError if it is less than ``least``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, got {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
    return value


def one_each(
    dist: Distribution | Sequence[Distribution], num_variables: int
) -> Sequence[Distribution]:
    """One distribution a variable: the one for all, or those given."""
    if isinstance(dist, Distribution):
        return [dist] * num_variables
    if len(dist) != num_variables:
        raise ValueError(
            f"dist must be one distribution, or one for each of {num_variables} variables, "
            f"got {len(dist)}"
        )
    return dist
