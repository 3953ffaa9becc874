"""A stand-in for GitHub's API on this machine's loopback address."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "owner/project"
SHA = "a" * 40


def pull(number: int, sha: str = SHA, repository: str = "stranger/fork") -> dict[str, Any]:
    return {"number": number, "head": {"sha": sha, "repo": {"full_name": repository}}}


def comment(number: int, body: str, author: str = "github-actions[bot]") -> dict[str, Any]:
    return {"id": number, "body": body, "user": {"login": author}}


class Hub:
    """Answers as the API does; notes what was asked of it, and with which token."""

    def __init__(self) -> None:
        self.pulls = [pull(7)]
        self.comments: list[dict[str, Any]] = []
        self.labels: list[str] = []
        self.artifacts: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.tokens: dict[str, str | None] = {}
        self.broken = False

    def answer(self, method: str, path: str, query: dict[str, str], content: Any) -> Any:
        """JSON, bytes, a redirect as text, or None for 404."""
        head = f"/repos/{REPOSITORY}"
        if path.startswith("/blob/"):
            return self.artifacts[path.removeprefix("/blob/")]
        if self.broken or not path.startswith(head):
            return None
        rest = path.removeprefix(head)
        if method in ("POST", "PATCH"):
            return self.write(method, rest, content["body"])
        if rest == "/pulls":
            assert query["state"] == "open"
            return self.pulls if query["head"] == "stranger:topic" else []
        if rest.endswith("/comments"):
            page = int(query["page"])
            return self.comments[100 * (page - 1) : 100 * page]
        if rest.endswith("/labels"):
            return [{"name": name} for name in self.labels]
        if rest == "/actions/runs/5/artifacts":
            names = list(self.artifacts)
            listed = [{"id": i, "name": n, "expired": False} for i, n in enumerate(names)]
            return {"artifacts": listed}
        if rest.startswith("/actions/artifacts/"):
            return "/blob/" + list(self.artifacts)[int(rest.split("/")[3])]
        return None

    def write(self, method: str, rest: str, body: str) -> Any:
        if method == "POST":
            self.comments.append(comment(100 + len(self.comments), body))
            return {}
        (old,) = [one for one in self.comments if rest == f"/issues/comments/{one['id']}"]
        old["body"] = body
        return {}


@contextlib.contextmanager
def serve(hub: Hub) -> Iterator[str]:
    """The address of a server that stops with the context."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            split = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(split.query).items()}
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            hub.asked.append(f"{self.command} {split.path}")
            hub.tokens[split.path] = self.headers.get("Authorization")
            found = hub.answer(self.command, split.path, query, json.loads(data) if data else None)
            self.send_response(404 if found is None else 302 if isinstance(found, str) else 200)
            if isinstance(found, str):
                self.send_header("Location", found)
            self.end_headers()
            with contextlib.suppress(OSError):  # the client may have had enough
                self.wfile.write(found if isinstance(found, bytes) else json.dumps(found).encode())

        do_POST = do_PATCH = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
