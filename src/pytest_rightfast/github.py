"""What the CI steps ask of GitHub's REST API. Standard library only: it holds a token."""

from __future__ import annotations

import io
import json
import lzma
import os
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from .errors import PerfError
from .gate_stored import LARGEST

PAGE, MOST_PAGES = 100, 30


class GithubError(PerfError):
    """The API did not answer as expected."""


@dataclass(frozen=True)
class Api:
    """`server` and `repository` as in GITHUB_API_URL and GITHUB_REPOSITORY."""

    server: str
    repository: str
    token: str

    @classmethod
    def of_environment(cls) -> Api:
        missing = [n for n in ("GITHUB_REPOSITORY", "GITHUB_TOKEN") if not os.environ.get(n)]
        if missing:
            raise GithubError(
                f"{missing[0]} is not set",
                expected="the environment of a GitHub Actions step, and a token",
                remedy="pass env: {GITHUB_TOKEN: ${{ github.token }}} to the step",
            )
        server = os.environ.get("GITHUB_API_URL", "https://api.github.com")
        return cls(server, os.environ["GITHUB_REPOSITORY"], os.environ["GITHUB_TOKEN"])

    def labels(self, number: int) -> list[str]:
        """Of a pull request, as they are now; the event has those of when it was sent."""
        return [str(one["name"]) for one in self._pages(f"issues/{number}/labels?")]

    def open_pulls(self, owner: str, branch: str) -> list[dict[str, Any]]:
        """Open pull requests from a branch of `owner`'s fork, or of this repository."""
        head = quote(f"{owner}:{branch}", safe="")
        return list(self._pages(f"pulls?state=open&head={head}&"))

    def comments(self, number: int) -> Iterator[dict[str, Any]]:
        return self._pages(f"issues/{number}/comments?")

    def create_comment(self, number: int, body: str) -> None:
        self._ask("POST", f"issues/{number}/comments", {"body": body})

    def update_comment(self, comment: int, body: str) -> None:
        self._ask("PATCH", f"issues/comments/{comment}", {"body": body})

    def artifact(self, run: int, name: str) -> bytes | None:
        """The newest artifact of that name, as a zip; None if the run left none."""
        listed = self._ask("GET", f"actions/runs/{run}/artifacts?name={quote(name)}&per_page=100")
        there = [a for a in listed["artifacts"] if a["name"] == name and not a["expired"]]
        if not there:
            return None
        newest = max(there, key=lambda artifact: int(artifact["id"]))
        return self._bytes("GET", f"actions/artifacts/{int(newest['id'])}/zip", None)

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        for page in range(1, MOST_PAGES + 1):
            found = self._ask("GET", f"{path}per_page={PAGE}&page={page}")
            yield from found
            if len(found) < PAGE:
                return

    def _ask(self, method: str, path: str, content: Any = None) -> Any:
        return json.loads(self._bytes(method, path, content))

    def _bytes(self, method: str, path: str, content: Any) -> bytes:
        data = None if content is None else json.dumps(content).encode()
        address = f"{self.server}/repos/{self.repository}/{path}"
        request = urllib.request.Request(address, data, method=method)
        request.add_header("Accept", "application/vnd.github+json")
        request.add_header("X-GitHub-Api-Version", "2022-11-28")
        # An artifact is served from another host, which must not see the token.
        request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                found: bytes = answer.read(LARGEST + 1)
        except (urllib.error.URLError, TimeoutError) as error:
            raise GithubError(
                f"{method} {path.partition('?')[0]} failed",
                expected="an answer of GitHub's API",
                got=str(error),
                remedy="see the step's permissions, and run it again",
            ) from error
        if len(found) > LARGEST:
            raise GithubError(
                f"{method} {path.partition('?')[0]} answered too much",
                expected=f"at most {LARGEST} bytes",
                remedy="give the artifact only the gate's files",
            )
        return found


def member(archive: bytes, name: str) -> bytes:
    """One file of a zip, in memory: nothing is written, so no path in it can lead anywhere.

    Raises GithubError: no zip, no such file, or one that unpacks to too much.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened, opened.open(name) as file:
            found = file.read(LARGEST + 1)  # the size that the zip states may be a lie
    except (zipfile.BadZipFile, KeyError, RuntimeError, NotImplementedError, OSError) as error:
        raise GithubError(
            f"the artifact has no readable {name}",
            expected=f"a zip with {name} at its top",
            got=f"{type(error).__name__}: {error}"[:200],
            remedy="upload it as the action does",
        ) from error
    except (EOFError, ValueError, zlib.error, lzma.LZMAError) as error:  # cut off, or made up
        raise GithubError(f"the artifact's {name} is damaged", got=str(error)[:200]) from error
    if len(found) > LARGEST:
        raise GithubError(f"{name} is too large", expected=f"at most {LARGEST} bytes")
    return found
