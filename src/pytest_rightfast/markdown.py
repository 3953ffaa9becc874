"""Text of strangers in Markdown.

Case names, reasons and paths come from the change under test, which may be a stranger's: nothing of
them may become a table cell, a heading, HTML, a link, an image or a mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LONGEST = 600  # characters of one reason
SPECIAL = re.compile(r"[\\`*_{}\[\]()<>#+!|~&:$\"'=^]")


def escape(text: str, longest: int = LONGEST) -> str:
    """Text that shows as it is, on one line, in any place of a Markdown document."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    if len(plain) > longest:
        plain = plain[: longest - 3] + "..."
    # A character reference is never syntax. A mention of a person or an issue is found in the
    # rendered text, so the name is cut off from its sign; a bare address is found by its `www.`.
    quoted = SPECIAL.sub(lambda match: f"&#{ord(match[0])};", plain)
    quoted = quoted.replace("@", "@&#8203;").replace("&#35;", "&#35;&#8203;")
    quoted = re.sub(r"(?i)\b(gh)-(?=\d)", r"\1-&#8203;", quoted)
    return re.sub(r"(?i)\bwww\.", "www&#46;", quoted)


def table(headers: Sequence[str], right: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of escaped cells; `right` names the headers of numbers."""
    numbers = set(right)
    rules = ["---:" if name in numbers else "---" for name in headers]
    lines = [list(headers), rules, *([escape(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
