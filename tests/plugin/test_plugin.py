"""A run as its user sees it: ids, roles, exit codes, progress, tables."""

from __future__ import annotations

import pytest

from pytest_rightfast.exits import ExitCode
from pytest_rightfast.results import load

MIXED = """
    from pytest_rightfast import PerfCase, Unsupported, peer

    def scaled(x):
        return x.exp() * 1.01

    def absent(x):
        raise Unsupported("no exp here")

    def missing(x):
        import a_module_that_is_not_there

    def broken(x):
        raise ValueError("boom")

    @pytest.fixture(params=[8, 16])
    def case(request):
        return PerfCase(
            inputs=lambda g: (torch.randn(request.param, generator=g),),
            reference=torch.exp,
            moved_bytes=lambda x: 2 * x.nbytes,
        )

    @pytest.mark.perf_backends(
        ours=torch.exp,
        theirs=peer(np.exp, prepare=lambda x: (x.numpy(),)),
        wrong=peer(scaled),
        absent=peer(absent),
        missing=peer(missing),
        broken=peer(broken),
    )
    def test_exp(perf, case, backend):
        perf(backend, case=case)
"""


def test_peers(project):
    """Shown as wrong, unsupported or broken, untimed; the run passes."""
    project.file("test_it.py", MIXED)
    result = project.run("-v", "--perf-json=rows.json", "--benchmark-save=a")
    assert result.ret == 0
    result.assert_outcomes(passed=4, skipped=8)
    rows = {(row.case, row.backend): row for row in load(project.path / "rows.json")}
    assert len(rows) == 12
    for (case, backend), row in rows.items():
        assert case in ("test_it.py::test_exp[8]", "test_it.py::test_exp[16]")
        assert row.role == ("subject" if backend == "ours" else "peer")
        expected = {"ours": "ok", "theirs": "ok", "wrong": "wrong", "broken": "error"}
        assert row.status == expected.get(backend, "unsupported")
        assert bool(row.samples) == (row.status == "ok")
    assert "elements are wrong" in rows["test_it.py::test_exp[8]", "wrong"].reason
    assert rows["test_it.py::test_exp[8]", "absent"].reason == "no exp here"
    assert "a_module_that_is_not_there" in rows["test_it.py::test_exp[8]", "missing"].reason
    assert rows["test_it.py::test_exp[8]", "broken"].reason == "ValueError: boom"
    result.stdout.fnmatch_lines(
        [
            "test_it.py::test_exp?8-wrong? WRONG (peer)*",
            "*WRONG peer wrong: *elements are wrong*",
            "12 of 12 cases: 4 ok, 4 unsupported, 2 wrong, 2 error"[:14] + "*",
        ]
    )


def test_a_backend_that_raises_in_its_gradient_is_to_blame_itself(project):
    project.file(
        "test_it.py",
        """
        from pytest_rightfast import peer

        class OneWay(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.exp()

            @staticmethod
            def backward(ctx, g):
                raise NotImplementedError("no gradient")

        @pytest.mark.perf_backends(ours=torch.exp, theirs=peer(OneWay.apply))
        def test_exp(perf, backend):
            perf(backend, torch.randn(8), reference=torch.exp, backward="only")
        """,
    )
    result = project.run("--perf-json=rows.json")
    assert result.ret == 0
    rows = load(project.path / "rows.json")
    assert [row.status for row in rows] == ["ok", "unsupported"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("perf(torch.exp, torch.randn(8), reference=torch.expm1)", "wrong"),
        ("perf(broken, torch.randn(8), reference=torch.exp)", "error"),
        ("perf(torch.exp, torch.randn(8), reference=broken)", "error"),
        ("perf(torch.exp, torch.randn(8), check=lambda out, x: 'too big')", "wrong"),
    ],
)
def test_subjects_fail_the_run(project, body, status):
    project.file(
        "test_it.py",
        f"""
        def broken(x):
            raise ValueError("boom")

        def test_right(perf):
            perf(torch.exp, torch.randn(8), reference=torch.exp)

        def test_not(perf):
            {body}
        """,
    )
    result = project.run("--perf-json=rows.json")
    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    rows = load(project.path / "rows.json")
    assert [row.status for row in rows] == ["ok", status]
    result.stdout.fnmatch_lines([f"*{status.upper()} subject*"])


def test_a_subject_may_be_unsupported(project):
    project.file(
        "test_it.py",
        """
        from pytest_rightfast import Unsupported

        def picky(x):
            raise Unsupported("only on Tuesdays")

        def test_right(perf):
            perf(torch.exp, torch.randn(8), reference=torch.exp)

        def test_picky(perf):
            perf(picky, torch.randn(8), reference=torch.exp)
        """,
    )
    result = project.run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*UNSUPPORTED subject picky: only on Tuesdays*"])


NOTHING = {
    "skipped": "pytest.skip('no')",
    "unsupported": "perf(picky, torch.randn(8), reference=torch.exp)",
}


@pytest.mark.parametrize("why", NOTHING)
def test_nothing_measured_is_never_green(project, why):
    project.file(
        "test_it.py",
        f"""
        from pytest_rightfast import Unsupported

        def picky(x):
            raise Unsupported("no")

        def test_plain():
            pass

        def test_it(perf):
            {NOTHING[why]}
        """,
    )
    assert project.run().ret == ExitCode.MISSING


@pytest.mark.parametrize("role", ["peer", "subject"])
def test_a_backend_may_find_out_from_its_inputs_that_it_does_not_cover_a_case(project, role):
    project.file(
        "test_it.py",
        f"""
        import pytest, torch
        from pytest_rightfast import Unsupported, {role}

        def small(x):
            raise Unsupported("more than it takes")

        @pytest.mark.perf_backends(ours=torch.exp, theirs={role}(torch.exp, prepare=small))
        def test_it(perf, backend):
            perf(backend, torch.ones(4), reference=torch.exp)
        """,
    )
    done = project.run()
    done.assert_outcomes(passed=1, skipped=1)
    done.stdout.fnmatch_lines(["*theirs*more than it takes*"])


def test_deselected_cases_are_not_missed(project):
    """A run of ordinary tests beside perf cases is an ordinary run."""
    project.file(
        "test_it.py",
        """
        def test_plain():
            pass

        def test_it(perf):
            perf(torch.exp, torch.randn(8), reference=torch.exp)
        """,
    )
    assert project.run("-k", "plain").ret == 0


def test_perf_that_is_never_called(project):
    project.file("test_it.py", "def test_it(perf):\n    pass\n")
    result = project.run()
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*never called perf*", "*expected:*", "*remedy:*"])


def test_every_case_has_a_row(project):
    """Also one that is written wrong, fails or is skipped before it calls perf."""
    project.file(
        "test_it.py",
        """
        @pytest.mark.perf_backends(ours=torch.exp)
        def test_no_reference(perf, backend):
            perf(backend, torch.randn(8))

        def test_raises(perf):
            raise KeyError("early")

        def test_skips(perf):
            pytest.skip("not today")

        def test_never(perf):
            pass
        """,
    )
    assert project.run("--perf-json=rows.json").ret == 1
    rows = load(project.path / "rows.json")
    assert [(row.case.partition("::")[2], row.backend, row.status) for row in rows] == [
        ("test_no_reference", "ours", "error"),
        ("test_raises", "", "error"),
        ("test_skips", "", "unsupported"),
        ("test_never", "", "error"),
    ]
    for row, reason in zip(rows, ["neither reference nor check", "early", "not today", "never"]):
        assert reason in row.reason


def test_perf_that_is_called_twice(project):
    project.file(
        "test_it.py",
        """
        def test_it(perf):
            perf(torch.exp, torch.randn(8), reference=torch.exp)
            perf(torch.exp, torch.randn(8), reference=torch.exp)
        """,
    )
    result = project.run("--benchmark-save=a")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*perf was called twice*", "*remedy:*parametrize*"])
    assert not list(project.path.glob(".benchmarks/*/*.json"))


def test_ids_survive_any_backend_name(project):
    """Names with dashes, names that are also parameters: rows of a case stay together."""
    project.file(
        "test_it.py",
        """
        @pytest.mark.parametrize("mode", ["a-b", "a", "x"])
        @pytest.mark.perf_backends(**{"a-b": torch.exp, "a": torch.exp, "b": torch.exp})
        def test_exp(perf, mode, backend):
            perf(backend, torch.randn(4), reference=torch.exp)
        """,
    )
    result = project.run("--benchmark-disable", "--perf-json=rows.json")
    assert result.ret == 0
    rows = load(project.path / "rows.json")
    assert len(rows) == 9
    cases = {row.case for row in rows}
    assert cases == {f"test_it.py::test_exp[{mode}]" for mode in ("a-b", "a", "x")}


def test_ids_with_brackets_in_the_path(project):
    project.file(
        "odd[1]/test_it.py",
        """
        @pytest.mark.perf_backends(ours=torch.exp)
        def test_exp(perf, backend):
            perf(backend, torch.randn(4), reference=torch.exp)
        """,
    )
    project.run("--benchmark-disable", "--perf-json=rows.json")
    (row,) = load(project.path / "rows.json")
    assert row.case == "odd[1]/test_it.py::test_exp"


@pytest.mark.parametrize(
    ("marker", "arguments"),
    [
        ("torch.exp, torch.sin", "perf, backend"),
        ("", "perf, backend"),
        ("ours=torch.exp", "perf"),
        ("ours=3", "perf, backend"),
    ],
)
def test_backends_used_wrongly(project, marker, arguments):
    project.file(
        "test_it.py",
        f"""
        @pytest.mark.perf_backends({marker})
        def test_exp({arguments}):
            perf(torch.exp, torch.randn(4), reference=torch.exp)
        """,
    )
    result = project.run()
    assert result.ret == 2
    result.stdout.fnmatch_lines(["*expected:*", "*got:*", "*remedy:*"])
    assert "_multicall" not in str(result.stdout)  # the message, no way through pytest's inside


def test_inputs_drawn_in_the_test_are_the_same_for_all_backends(project):
    project.file(
        "test_it.py",
        """
        import random

        @pytest.mark.perf_backends(one=torch.exp, two=torch.exp)
        def test_exp(perf, backend):
            x = torch.randn(4) + random.random() + float(np.random.rand())
            perf(backend, x, reference=torch.exp)
        """,
    )
    assert project.run("--perf-json=rows.json").ret == 0
    one, two = load(project.path / "rows.json")
    assert one.inputs == two.inputs != ""


def test_progress_and_summary(project):
    project.file(
        "test_it.py",
        """
        def test_exp(perf):
            perf(torch.exp, torch.randn(512), reference=torch.exp, moved_bytes=4096)
        """,
    )
    result = project.run("-v")
    result.stdout.re_match_lines(
        [
            r"test_it.py::test_exp [\d.]+ [num]s ",
            r"cpu, 1 thread, system heap$",
            r"case +backend +median +spread +ratio +GB/s +of copy +error",
            r"it: exp +exp +[\d.]+ [num]s +[\d.]+% +[\d.]+ +\d+%",
            r"1 of 1 cases: 1 ok$",
            r"the suite's own overhead: median [\d.]+ s a case",
        ]
    )


def test_state_that_a_fixture_sets_is_recorded(project):
    """The remedy that the error names: it holds for the case and is shown."""
    project.file(
        "test_it.py",
        """
        @pytest.fixture
        def flushed():
            torch.set_flush_denormal(True)
            yield
            torch.set_flush_denormal(False)

        def test_exp(flushed, perf):
            row = perf(torch.exp, torch.randn(8), reference=torch.exp)
            assert row.state == {"flush_denormal": True}
        """,
    )
    result = project.run()
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*not at its default*flush_denormal*True*"])


def test_rows_carry_where_they_come_from(project):
    project.file(
        "test_it.py",
        """
        def test_exp(perf):
            perf(torch.exp, torch.randn(8), reference=torch.exp)
        """,
    )
    project.run("--perf-json=rows.json")
    (row,) = load(project.path / "rows.json")
    wanted = {"host", "cpu", "cpu_count", "gpu", "driver", "system", "python", "torch", "triton"}
    wanted |= {"numpy", "rightfast", "commit", "dirty", "affinity", "clock", "time"}
    assert wanted <= row.environment.keys()
    assert row.environment["clock"] == "perf_counter_ns"
    assert row.threads == 1
    assert row.first_call > 0
    assert row.loops >= 1
    assert row.counters["operators"] == 1


def test_report_prints_the_tables_of_files(project, capsys):
    from pytest_rightfast.cli import main

    project.file("test_it.py", MIXED)
    project.run("--perf-json=rows.json")
    capsys.readouterr()
    assert main(["report", "rows.json"]) == 0
    output = capsys.readouterr().out
    assert "it: exp[8]" in output
    assert "WRONG peer wrong" in output
    assert main(["report", "absent.json"]) == 2
    assert "cannot read absent.json" in capsys.readouterr().err
