"""`--perf-shard I/N`: one of N machines takes every Nth case, all backends of it together, so that
ratios are of one machine."""

from __future__ import annotations

from collections.abc import Callable

import pytest


class Shard:
    """A pytest plugin that deselects the cases of other shards, after -k and -m had their turn.

    `case_of` gives the case that a test belongs to, or None for a test that is no perf case: those
    stay in every shard.
    """

    def __init__(
        self, index: int, count: int, case_of: Callable[[pytest.Item], str | None]
    ) -> None:
        self.index, self.count, self.case_of = index, count, case_of

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        cases = [self.case_of(item) for item in items]
        numbers = {case: n for n, case in enumerate(dict.fromkeys(filter(None, cases)))}
        mine = [case is None or numbers[case] % self.count == self.index - 1 for case in cases]
        others = [item for item, own in zip(items, mine) if not own]
        items[:] = [item for item, own in zip(items, mine) if own]
        if others:
            config.hook.pytest_deselected(items=others)
