"""The example of docs/runtime.md runs, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "runtime.md"


def test_the_example():
    blocks = re.findall(r"^```(?:python)?\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    code, says = blocks[0], blocks[1]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(code, str(PAGE), "exec"), {})
    assert printed.getvalue() == says
