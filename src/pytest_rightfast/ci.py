"""The steps of GitHub Actions: `python -m pytest_rightfast.ci gate` and `... comment`.

`gate` runs the gate as the inputs of `action.yml` say, writes the job summary before it exits, and
exits with the gate's code. `comment` puts the report of a finished run on its pull request; it
imports the standard library alone, so that the job with a token to write needs nothing installed.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import comment, gate_stored, github
from .errors import PerfError, ResultsError
from .exits import ExitCode
from .markdown import escape

JSON, MARKDOWN = "rightfast.json", "rightfast.md"
SUMMARY = 900_000  # bytes; GitHub shows no summary above 1 MiB
BOT = "github-actions[bot]"  # whose comments the workflow's own token writes
# A label is a word without a limit or an expiry, so it excuses time and cost, not a wrong answer,
# and not a gate that measured nothing.
EXCUSABLE = (ExitCode.SLOWER, ExitCode.COSTLIER, ExitCode.OTHER)
OPTIONS = {
    "BUDGET": "--budget",
    "MIN_EFFECT": "--min-effect",
    "FAIL_ON": "--fail-on",
    "DEVICE": "--device",
    "THREADS": "--threads",
}


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    steps = {"gate": gate, "comment": post}
    try:
        if len(arguments) != 1 or arguments[0] not in steps:
            raise PerfError("unknown step", expected=" or ".join(steps), got=arguments)
        return steps[arguments[0]]()
    except PerfError as error:
        print(f"::error::rightfast: {_command(str(error))}")
        _append("GITHUB_STEP_SUMMARY", f"## rightfast: no verdict\n\n{escape(str(error), 4000)}\n")
        return int(ExitCode.GATE)


def gate() -> int:
    """Run the gate; the summary and the outputs are written before its code is returned."""
    out = Path(_input("OUT") or "rightfast-report")
    for name in (JSON, MARKDOWN):  # of an earlier attempt on the same machine
        (out / name).unlink(missing_ok=True)
    out.mkdir(parents=True, exist_ok=True)
    words = command(os.environ, out)
    print(f"::group::{_command(shlex.join(words))}", flush=True)
    code = subprocess.run([sys.executable, *words], check=False).returncode
    print("::endgroup::", flush=True)
    said = _read(out / MARKDOWN) or f"## rightfast: the gate ended with {code}, see the log\n"
    label = _input("OVERRIDE_LABEL")
    if code in EXCUSABLE and label and _labelled(label):
        said += f"\nExit code {code} is overridden by the label {escape(label)}.\n"
        code = 0
    _append("GITHUB_STEP_SUMMARY", said.encode()[:SUMMARY].decode(errors="ignore") + "\n")
    _append("GITHUB_OUTPUT", f"exit-code={code}\n")
    return code


def command(environment: Mapping[str, str], out: Path) -> list[str]:
    """The words of `python -m pytest_rightfast gate ...` that the inputs stand for.

    Raises PerfError where nothing says what to compare with.
    """

    def get(name: str) -> str:
        return environment.get(f"RIGHTFAST_{name}", "").strip()

    target = environment.get("GITHUB_BASE_REF", "")  # set for pull requests alone
    against = get("AGAINST") or (f"origin/{target}" if target else "")
    if not against:
        raise PerfError(
            "nothing to compare with",
            expected="the input `against`, or the event pull_request",
            got=f"neither, at the event {environment.get('GITHUB_EVENT_NAME') or 'unknown'}",
            remedy="with: {against: origin/main}",
        )
    words = ["-m", "pytest_rightfast", "gate", against, *get("PATHS").split()]
    words += ["--json", str(out / JSON), "--markdown", str(out / MARKDOWN)]
    for name, option in OPTIONS.items():
        words += [option, get(name)] if get(name) else []
    if (advisory := get("ADVISORY").lower()) not in ("", "true", "false"):
        raise PerfError("the input `advisory`", expected="true or false", got=advisory)
    words += ["--advisory"] if advisory == "true" else []
    return words + (["--", *_split(get("ARGUMENTS"))] if get("ARGUMENTS") else [])


def _split(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError as error:
        raise PerfError(
            f"the input `arguments` is no shell text: {error}",
            expected="words, quoted as in a shell",
            got=repr(arguments),
            remedy="close the quotation",
        ) from error


def post() -> int:
    """Comment on the pull request that a finished run belongs to, or update the comment."""
    run = _event()["workflow_run"]
    api, name = github.Api.of_environment(), _input("ARTIFACT") or "rightfast"
    numbers = pull_requests(api, run)
    if not numbers:
        print("no open pull request has this head any more; nothing to comment on")
    text = report(api, run, name) if numbers else ""
    for number in numbers:
        old = _own_comment(api, number, comment.marker(name))
        if old is None:
            api.create_comment(number, text)
        else:
            api.update_comment(old, text)
        print(f"pull request {number}: comment {'updated' if old else 'written'}")
    return 0


def pull_requests(api: github.Api, run: Mapping[str, Any]) -> list[int]:
    """Numbers of the open pull requests whose head this run was about.

    Only GitHub's own event and answers count; a number in the artifact would be its author's claim.
    """
    if run["event"] not in ("pull_request", "pull_request_target"):
        return []
    head = run["head_repository"]
    found = api.open_pulls(head["owner"]["login"], run["head_branch"])
    return [
        int(pull["number"])
        for pull in found
        if pull["head"]["sha"] == run["head_sha"]
        and (pull["head"]["repo"] or {}).get("full_name") == head["full_name"]
    ]


def report(api: github.Api, run: Mapping[str, Any], name: str) -> str:
    """The comment's text; where there is no report, or a bad one, it says so."""
    about = (name, str(run["html_url"]), str(run["conclusion"]))
    archive = api.artifact(int(run["id"]), name)
    if archive is None:
        return comment.failure("The run left no report.", *about)
    try:
        return comment.render(gate_stored.parse(github.member(archive, JSON)), *about)
    except (ResultsError, github.GithubError) as error:
        return comment.failure(f"The run's report can't be used: {error}", *about)


def _own_comment(api: github.Api, number: int, mark: str) -> int | None:
    """Anyone can write the mark, and this token may edit anyone's comment: the author counts."""
    for one in api.comments(number):
        if (one.get("user") or {}).get("login") == BOT and str(one["body"]).startswith(mark):
            return int(one["id"])
    return None


def _labelled(label: str) -> bool:
    """Whether the pull request has the label now. If that can't be read, it has not."""
    number = _event().get("pull_request", {}).get("number")
    if number is None:
        return False
    try:
        return label in github.Api.of_environment().labels(int(number))
    except PerfError as error:
        print(f"::warning::rightfast: the labels can't be read: {_command(str(error))}")
        return False


def _event() -> dict[str, Any]:
    path = os.environ.get("GITHUB_EVENT_PATH", "")
    try:
        return dict(json.loads(Path(path).read_text(encoding="utf-8"))) if path else {}
    except (OSError, ValueError) as error:
        raise PerfError(f"the event can't be read: {error}") from error


def _input(name: str) -> str:
    return os.environ.get(f"RIGHTFAST_{name}", "").strip()


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def _append(variable: str, text: str) -> None:
    if path := os.environ.get(variable):
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


def _command(text: str) -> str:
    """A workflow command is one line; newlines in its data are written as GitHub wants them."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
