"""Delete one guard at a time and expect its test to go red.

    python tests/gate/mutants.py [MODULE ...]     runs them, in a copy of the sources
    python tests/gate/mutants.py --table          prints docs/gate-guards.md

Some mutants hang instead of failing (a deadline deleted); 300 seconds count as red too.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    guard: str
    module: str
    old: str
    new: str
    test: str
    chosen: str  # as `pytest -k`


DATA = Path(__file__).parent / "data/mutants.json"
MUTANTS = [Mutant(*row) for row in json.loads(DATA.read_text())]


def table() -> str:
    rows = [
        "# Guards of the gate, and the test of each",
        "",
        "Written by `python tests/gate/mutants.py --table`. Without `--table` it deletes each",
        "guard in a copy of the sources and expects its test to go red.",
        "",
        "| guard | in | test (`-k`) |",
        "|---|---|---|",
    ]
    rows += [f"| {m.guard} | `{m.module}.py` | `{m.test}`: `{m.chosen}` |" for m in MUTANTS]
    return "\n".join(rows)


def outcome(mutant: Mutant, folder: Path) -> str:
    """`red`, `hangs` (red too), `GREEN`, or `stale` where the guard's text is not found."""
    source = folder / "pytest_rightfast" / f"{mutant.module}.py"
    text = source.read_text()
    if text.count(mutant.old) == 0:
        return "stale"
    command = [sys.executable, "-m", "pytest", "-p", "no:rightfast", "-p", "no:cacheprovider"]
    command += ["-qx", f"tests/gate/{mutant.test}", "-k", mutant.chosen]
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    source.write_text(text.replace(mutant.old, mutant.new))
    try:
        code = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, timeout=300
        ).returncode
    except subprocess.TimeoutExpired:
        return "hangs"
    finally:
        source.write_text(text)
    return "red" if code == 1 else f"GREEN ({code})"


def main(modules: list[str]) -> int:
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(ROOT / "src", name, dirs_exist_ok=True)
        for mutant in MUTANTS:
            if not modules or mutant.module in modules:
                found = outcome(mutant, Path(name))
                bad += found not in ("red", "hangs")
                print(f"{found:10} {mutant.module:12} {mutant.guard}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--table"]:
        print(table())
    else:
        sys.exit(main(sys.argv[1:]))
