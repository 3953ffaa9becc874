"""Break the runtime in one place at a time and expect the test of that class of error to turn red.

    python tests/runtime/mutations.py [WORD ...]   run those whose line has a WORD, or all
    python tests/runtime/mutations.py --table      print the table of docs/runtime-classes.md

Each mutation is one replacement in a copy of `src/rightfast`; the copy is what the test imports.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "rightfast" / "runtime"
DATA = Path(__file__).parent / "data" / "mutations.json"
MARK = "\nimport os as _os\nopen(_os.environ['RIGHTFAST_MUTATED'], 'w').close()\n"


class Mutation(NamedTuple):
    number: int  # of the class of error
    error: str
    module: str
    old: str
    new: str
    test: str  # file::test or file::class::test, as pytest takes it
    gpu: bool


MUTATIONS = [Mutation(*row) for row in json.loads(DATA.read_text(encoding="utf-8"))]


def count(mutation: Mutation) -> int:
    """How often the text stands in its file."""
    return (SOURCE / f"{mutation.module}.py").read_text(encoding="utf-8").count(mutation.old)


def outcome(mutation: Mutation, folder: Path) -> str:
    """`red` if the test fails with the mutation; otherwise what went wrong."""
    copy = folder / "rightfast"
    if copy.exists():
        shutil.rmtree(copy)
    shutil.copytree(SOURCE.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    target = copy / "runtime" / f"{mutation.module}.py"
    start, proof = copy / "runtime" / "__init__.py", folder / "proof"
    text = target.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        return f"stale: its text is there {text.count(mutation.old)} times"
    target.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    start.write_text(start.read_text(encoding="utf-8") + MARK, encoding="utf-8")
    proof.unlink(missing_ok=True)
    inherited = os.environ.get("PYTHONPATH", "")
    path = os.pathsep.join([str(folder), inherited, str(ROOT / "src"), str(ROOT / "kernels")])
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider"]
    command += ["-p", "no:hypothesispytest", f"tests/runtime/{mutation.test}"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "RIGHTFAST_MUTATED": str(proof)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if not proof.exists():
        return "the copy was not imported: " + done.stdout[-500:] + done.stderr[-500:]
    if done.returncode != 1 or " failed" not in done.stdout:
        return f"GREEN (exit code {done.returncode}): " + done.stdout[-300:] + done.stderr[-300:]
    return "red"


def table() -> str:
    """The table of docs/runtime-classes.md."""
    lines = ["| class | error | mutation | caught by |", "|---|---|---|---|"]
    for one in MUTATIONS:
        old, new = (" ".join(text.split()).replace("|", "\\|") for text in (one.old, one.new))
        change = f"`{old}` -> " + (f"`{new}`" if new else "deleted")
        where = f"`{one.test}`" + (" (GPU)" if one.gpu else "")
        lines.append(f"| {one.number} | {one.error} | `{one.module}.py`: {change} | {where} |")
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> int:
    import torch

    if words == ["--table"]:
        print(table(), end="")
        return 0
    chosen = [one for one in MUTATIONS if not words or any(word in str(one) for word in words)]
    chosen = [one for one in chosen if torch.cuda.is_available() or not one.gpu]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, one in enumerate(chosen, 1):
            found = outcome(one, Path(folder))
            bad += found != "red"
            line = f"{number}/{len(chosen)} {one.number} {one.module}: {one.error}: {found}"
            print(line, flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} red")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
