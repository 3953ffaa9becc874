"""How the kernels' work is cut into tiles: from the shapes alone, so that nothing is measured."""

from functools import lru_cache
from typing import NamedTuple

FAST = ("bf16x3", "tf32", "bf16")  # what matrix units do: arithmetic costs less than memory
SMS = 132  # processors of an H200
ENOUGH = 120  # programs; fewer leave too many of them idle


class Tile(NamedTuple):
    """Sums, children and samples of a tile; warps; how many loads are on their way."""

    nodes: int
    children: int
    batch: int
    warps: int = 4
    stages: int = 3


def power(n: int, most: int, least: int = 16) -> int:
    """The least power of two that is n or more, within bounds."""
    return max(least, min(most, 1 << max(0, n - 1).bit_length()))


@lru_cache(maxsize=4096)
def inputs(nodes: int, batch: int) -> Tile:
    """Nodes and samples: few nodes, so that their tables stay in a core's cache."""
    b = power(batch, 256)
    return Tile(power(nodes, max(4, 2048 // b), 1), 0, b)


@lru_cache(maxsize=4096)
def input_flows(nodes: int, categories: int, owners: int, batch: int) -> Tile:
    """Nodes and categories of a tile; each program goes over the batch."""
    k, c = power(nodes, 128), power(categories, 64)
    while k * c > 2048 and -(-nodes // k) * -(-categories // c) * owners < ENOUGH:
        k, c = (k, c // 2) if c >= k else (k // 2, c)
    return Tile(k, c, power(batch, 64), 8 if k * c >= 4096 else 4)


@lru_cache(maxsize=4096)
def scaled(children: int, groups: int, batch: int) -> tuple[int, int, int]:
    """(children, samples, warps) of the elements: a program has all children of some samples."""
    b = power(batch, 64)
    while b > 16 and groups * -(-batch // b) < ENOUGH:
        b //= 2
    c = power(children, 16384 // b)
    return c, b, 16 if b * c > 8192 else 8 if b * c > 2048 else 4


@lru_cache(maxsize=4096)
def sums(nodes: int, children: int, groups: int, batch: int, precision: str) -> Tile:
    """Of the forward pass: each program goes over all children."""
    return _spread(nodes, groups, batch, children, precision)


@lru_cache(maxsize=4096)
def elements(nodes: int, children: int, groups: int, batch: int, precision: str) -> Tile:
    """Of element flows: each program goes over all sums."""
    outer = _spread(children, groups, batch, nodes, precision)
    return outer._replace(nodes=outer.children, children=outer.nodes)


@lru_cache(maxsize=4096)
def parameters(nodes: int, children: int, owners: int, batch: int, precision: str) -> Tile:
    """Of parameter flows: each program goes over the batch."""
    fast = precision in FAST
    n, c = power(nodes, 64), power(children, 128 if fast and batch > 16 else 64)
    while n * c > 1024 and -(-nodes // n) * -(-children // c) * owners < ENOUGH:
        n, c = (n, c // 2) if c >= n else (n // 2, c)
    return Tile(n, c, power(batch, 32), 4 if fast or n * c < 4096 else 8)


def _spread(outer: int, groups: int, batch: int, inner: int, precision: str) -> Tile:
    """The largest tiles of which there are enough."""
    fast = precision in FAST
    rows, columns = power(outer, 64), power(batch, 128 if fast else 64)
    while rows * columns > 256 and -(-outer // rows) * -(-batch // columns) * groups < ENOUGH:
        if rows >= columns and rows > 16:
            rows //= 2
        elif columns > 16:
            columns //= 2
        else:
            break
    size = rows * columns
    depth = power(inner, 128 if size <= 512 else 64 if size <= 2048 and fast else 32)
    if fast:
        many = -(-outer // rows) * -(-batch // columns) * groups > 2 * SMS
        return Tile(rows, depth, columns, 2 if columns == 16 and many else 4)
    return Tile(rows, depth, columns, 8 if size >= 4096 else 4)


def walk(children: int, batch: int) -> tuple[int, int]:
    """Children, or categories, and samples of a tile on the way from the root down."""
    return power(children, 64), power(batch, 32)
