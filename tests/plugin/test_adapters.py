"""`from_table` and `from_asv`: what they collect, what they refuse, and that wrong is wrong."""

from __future__ import annotations

import pytest

from pytest_rightfast import CaseError, PerfCase, from_asv, from_table
from pytest_rightfast.results import load

TABLE = """
from pytest_rightfast import PerfCase, from_table, peer

def draw(generator):
    return (torch.randn(8, 32, generator=generator),)

TABLE = {
    "relu": {
        "ours": lambda x: x.clamp(min=0),
        "torch": peer(torch.relu),
        "case": PerfCase(inputs=draw, reference=torch.relu),
    },
    "square": {"ours": lambda x: x * abs(x), "case": PerfCase(inputs=draw, reference=torch.square)},
}
test_operators = from_table(TABLE)
"""


def test_a_table_is_one_test_for_each_function(project):
    project.file("perf/test_table.py", TABLE)
    result = project.run("perf", "--perf-json=rows.json", "--benchmark-disable")
    result.assert_outcomes(passed=2, failed=1)
    rows = {row.id.split("::")[1]: row for row in load(project.path / "rows.json")}
    assert {name: row.status for name, row in rows.items()} == {
        "test_operators[relu-ours]": "ok",
        "test_operators[relu-torch]": "ok",
        "test_operators[square-ours]": "wrong",
    }
    assert rows["test_operators[relu-torch]"].role == "peer"
    cases = [rows[f"test_operators[relu-{name}]"].case for name in ("ours", "torch")]
    assert cases == ["perf/test_table.py::test_operators[relu]"] * 2


@pytest.mark.parametrize("row", [{"f": abs}, {"case": PerfCase(reference=abs)}, {}])
def test_rows_that_cannot_be_measured(row):
    with pytest.raises(CaseError, match="the row 'x' can't be measured"):
        from_table({"x": row})


BENCHMARKS = """
class Rows:
    params = [[4, 16], ["float32", "float64"]]
    param_names = ["width", "dtype"]

    def setup(self, width, dtype):
        if width == 16 and dtype == "float64":
            raise NotImplementedError("no wide doubles")
        self.x = torch.randn(8, width, dtype=getattr(torch, dtype))
        self.scale = np.random.rand()

    def time_sum(self, width, dtype):
        assert self.x.shape[1] == width
        return self.x.sum(1) * self.scale

    def time_first(self, width, dtype):
        return self.x[0] * (1.0 if width == 4 else 1.1)


class Plain:
    params = [3, 5]

    def setup_cache(self):
        return 2.0

    def setup(self, factor, width):
        self.x = torch.randn(width)

    def time_product(self, factor, width):
        self.x.mul_(factor)
        return self.x


class Bare:
    def setup(self):
        self.x = torch.randn(4)

    def time_relu(self):
        return self.x.relu()


from pytest_rightfast import PerfCase, from_asv

TestRows = from_asv(
    Rows,
    time_sum=PerfCase(
        reference=lambda self, width, dtype: self.x.sum(1) * self.scale,
        moved_bytes=lambda self, width, dtype: self.x.nbytes,
    ),
    time_first=PerfCase(check=lambda out, self, width, dtype: torch.equal(out, self.x[0])),
)
TestPlain = from_asv(Plain, time_product=PerfCase(reference=lambda self, f, width: self.x * f))
TestBare = from_asv(Bare, time_relu=PerfCase(reference=lambda self: self.x.clamp(min=0)))
"""


def test_an_asv_class_is_a_class_of_tests(project):
    project.file("perf/test_asv.py", BENCHMARKS)
    result = project.run("perf", "--perf-json=rows.json")
    rows = {row.id.split("::", 1)[1]: row for row in load(project.path / "rows.json")}
    found = {name: row.status for name, row in rows.items()}
    assert found == {
        "TestRows::test_sum[4-float32]": "ok",
        "TestRows::test_sum[4-float64]": "ok",
        "TestRows::test_sum[16-float32]": "ok",
        "TestRows::test_sum[16-float64]": "unsupported",
        "TestRows::test_first[4-float32]": "ok",
        "TestRows::test_first[4-float64]": "ok",
        "TestRows::test_first[16-float32]": "wrong",
        "TestRows::test_first[16-float64]": "unsupported",
        "TestPlain::test_product[3]": "wrong",
        "TestPlain::test_product[5]": "wrong",
        "TestBare::test_relu": "ok",
    }
    assert "changed its input" in rows["TestPlain::test_product[3]"].reason
    assert rows["TestRows::test_sum[4-float32]"].moved_bytes == 8 * 4 * 4
    assert rows["TestRows::test_sum[4-float32]"].samples
    result.assert_outcomes(passed=6, failed=3, skipped=2)


class Norm:
    def time_layer(self):
        pass


@pytest.mark.parametrize("cases", [{}, {"time_batch": PerfCase(reference=abs)}])
def test_methods_that_are_not_there(cases):
    with pytest.raises(CaseError, match="of time_layer") as caught:
        from_asv(Norm, **cases)
    assert ("time_batch" in str(caught.value)) == bool(cases)


def test_a_draw_is_reproducible_and_leaves_the_global_generators_alone():
    import random

    import numpy
    import torch

    from pytest_rightfast.adapt_asv import _Bound

    class Draws:
        def setup(self):
            self.found = torch.rand(2).tolist(), numpy.random.rand(), random.random()

    bound = _Bound(Draws, "setup", ())
    before = torch.get_rng_state(), numpy.random.get_state()[1].tolist(), random.getstate()
    assert bound.draw(1) == bound.draw(1) != bound.draw(2)
    assert torch.equal(before[0], torch.get_rng_state())
    assert numpy.random.get_state()[1].tolist() == before[1]
    assert random.getstate() == before[2]
