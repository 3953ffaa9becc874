"""The comment on a pull request, from artifacts of friends and of strangers."""

from __future__ import annotations

import json
import shutil

import pytest
import steps
from hub import REPOSITORY, SHA, Hub, comment, pull, serve
from reports import case, report, zipped

MARK = "<!-- rightfast: rightfast -->"


@pytest.fixture
def hub():
    return Hub()


@pytest.fixture
def post(hub, tmp_path):
    """Run the action's step on an event; returns what came of it."""

    def run(event="pull_request", sha=SHA):
        found = {
            "id": 5,
            "event": event,
            "head_sha": sha,
            "head_branch": "topic",
            "head_repository": {"full_name": "stranger/fork", "owner": {"login": "stranger"}},
            "html_url": "https://hub.example/owner/project/actions/runs/5",
            "conclusion": "failure",
        }
        file = tmp_path / "event.json"
        file.write_text(json.dumps({"workflow_run": found}))
        shutil.copytree(steps.ROOT / "comment", tmp_path / "comment", dirs_exist_ok=True)
        if not (tmp_path / "src").exists():
            (tmp_path / "src").symlink_to(steps.SOURCE)
        with serve(hub) as address:
            env = {**steps.plain_environment(), "GITHUB_EVENT_PATH": str(file)}
            env |= {"GITHUB_API_URL": address, "GITHUB_REPOSITORY": REPOSITORY}
            ran = steps.run(tmp_path / "comment" / "action.yml", {}, tmp_path, tmp_path, env)
        return ran

    return run


def body(hub, post):
    ran = post()
    assert ran.code == 0, ran.said
    (one,) = hub.comments
    return one["body"]


def test_the_report_becomes_one_comment(hub, post):
    slower = case("perf/test_a.py::test_b", "slower")
    hub.artifacts["rightfast"] = zipped(report(case(), slower, exit_code=10, would_exit=10))
    text = body(hub, post)
    lines = text.splitlines()
    assert lines[0] == MARK
    assert lines[1] == "## rightfast: failed (slower, exit 10): 1 same, 1 slower"
    assert "| a&#58; b | slower | 2 ms | 2 ms | 1.200x | 1.100-1.300 | &#43;5.0% | 1.0% |" in lines
    assert text.index("| a&#58; b |") < text.index("| a&#58; a |")  # what fails comes first
    assert "- perf/test&#95;a.py&#58;&#58;test&#95;b: **slower** ratio 1.2" in lines
    assert (
        "[the run](https://hub.example/owner/project/actions/runs/5) concluded as failure" in text
    )


def test_it_is_updated_in_place(hub, post):
    hub.comments = [comment(n, "hello", "friend") for n in range(150)]
    hub.comments.append(comment(900, f"{MARK}\nold"))
    hub.artifacts["rightfast"] = zipped(report())
    assert post().code == 0
    assert len(hub.comments) == 151
    assert "passed: 1 same" in hub.comments[-1]["body"]


def test_a_stranger_who_writes_the_mark_is_left_alone(hub, post):
    hub.comments = [comment(1, f"{MARK}\nmine", "stranger")]
    hub.artifacts["rightfast"] = zipped(report())
    assert post().code == 0
    assert [one["body"] == f"{MARK}\nmine" for one in hub.comments] == [True, False]


@pytest.mark.parametrize("pulls", [[], [pull(7, sha="e" * 40)], [pull(7, repository="other/fork")]])
def test_a_head_that_moved_on_gets_no_comment(hub, post, pulls):
    hub.pulls = pulls
    hub.artifacts["rightfast"] = zipped(report())
    ran = post()
    assert ran.code == 0
    assert "nothing to comment on" in ran.said
    assert hub.comments == []


def test_other_events_get_no_comment(hub, post):
    hub.artifacts["rightfast"] = zipped(report())
    assert post(event="push").code == 0
    assert hub.comments == []


def test_the_artifact_cannot_name_the_pull_request(hub, post):
    hub.pulls = [pull(3), pull(7, sha="e" * 40)]
    hub.artifacts["rightfast"] = zipped(report(pull_request=1, number=1, head_sha="f" * 40))
    assert post().code == 0
    written = [one for one in hub.asked if one.startswith(("POST", "PATCH"))]
    assert written == [f"POST /repos/{REPOSITORY}/issues/3/comments"]


def test_the_token_stays_with_the_api(hub, post):
    hub.artifacts["rightfast"] = zipped(report())
    assert post().code == 0
    assert hub.tokens.pop("/blob/rightfast") is None
    assert set(hub.tokens.values()) == {"Bearer secret"}


def test_a_broken_api_fails_with_its_answer(hub, post):
    hub.broken = True
    ran = post()
    assert ran.code == 15
    assert "::error::rightfast: GET pulls failed%0A" in ran.said
    assert "404" in ran.said


def test_a_run_without_a_report_is_said(hub, post):
    assert "The run left no report" in body(hub, post)


def test_a_gate_that_could_not_run_is_said(hub, post):
    error = {"schema": 1, "kind": "gate", "error": "no such @revision", "cases": []}
    hub.artifacts["rightfast"] = zipped({**error, "exit_code": 15})
    assert "the gate could not run&#58; no such @&#8203;revision" in body(hub, post)
