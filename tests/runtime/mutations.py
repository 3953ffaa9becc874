"""Break the runtime in one place at a time and expect the test of that class of error to turn red.

    python tests/runtime/mutations.py [WORD ...]   run those whose line has a WORD, or all
    python tests/runtime/mutations.py --table      print the table of docs/runtime.md

Each mutation is one replacement in a copy of `src/rightfast`; the copy is what the test imports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "rightfast" / "runtime"
MARK = "\nimport os as _os\nopen(_os.environ['RIGHTFAST_MUTATED'], 'w').close()\n"


class Mutation(NamedTuple):
    number: int  # of the class of error; 0: none of the list
    error: str
    module: str
    old: str
    new: str
    test: str  # file::test, as pytest takes it
    gpu: bool = False


CLASSES = "test_classes.py::"
KEY, STATE = CLASSES + "TestKey::test_", CLASSES + "TestState::test_"
MEMORY, POLICY = CLASSES + "TestMemory::test_", CLASSES + "TestPolicy::test_"
PLACES = (
    "addresses, storages = tuple(map(Tensor.data_ptr, own)), "
    "tuple(map(Tensor.untyped_storage, own))"
)
MUTATIONS = [
    Mutation(
        1,
        "a key made of a recycled identity",
        "keys",
        PLACES,
        "addresses, storages = tuple(map(id, own)), ()",
        KEY + "01_memory_under_a_tensor_is_swapped",
    ),
    Mutation(
        1,
        "the same, for an argument",
        "keys",
        PLACES,
        "addresses, storages = tuple(map(id, own)), ()",
        KEY + "01_memory_under_an_argument_is_swapped",
    ),
    Mutation(
        2,
        "a warm-up with effects",
        "graphs",
        "        if wanted:\n",
        "        if wanted and self._eager(options, *asked) is not self:\n",
        STATE + "02_recording_runs_once_for_real",
    ),
    Mutation(
        3,
        "an option missing from the key",
        "keys",
        "return (cls, kinds, values)",
        "return (cls, kinds, values[:-2])",
        KEY + "03_every_option_counts",
    ),
    Mutation(
        3,
        "a mode of torch missing from the key",
        "keys",
        "        autocast,\n",
        "",
        KEY + "03_modes_of_torch_count",
    ),
    Mutation(
        4,
        "a Python effect frozen in the capture",
        "keys",
        "    if callable(value):\n",
        "    if callable(value):\n        return id(value)\n    if False:\n",
        STATE + "04_a_callback_runs_every_time",
    ),
    Mutation(
        5,
        "what is fed is baked in",
        "recorded",
        "zip(self.statics, fed.values()):\n            static.copy_(value)",
        "zip(self.statics, fed.values()):\n            pass",
        KEY + "05_what_is_fed_is_fresh",
    ),
    Mutation(
        6,
        "state is set by a recording only",
        "recorded",
        "        if self.state:\n",
        "        if False:\n",
        STATE + "06_state_is_set_by_every_call",
    ),
    Mutation(
        6,
        "state that is set and not declared is not noticed",
        "state",
        "if unknown and kind is None:",
        "if False:",
        "test_graphs.py::test_an_attribute_that_is_not_declared",
    ),
    Mutation(
        7,
        "the capture's state stays on the object",
        "state",
        "restore(self._owner, {**self._before, **changed})",
        "pass",
        STATE + "07_state_belongs_to_the_latest_call",
    ),
    Mutation(
        8,
        "memory that is baked in may be freed",
        "keys",
        PLACES,
        "addresses, storages = tuple(map(Tensor.data_ptr, own)), ()",
        MEMORY + "08_what_a_recording_uses_lives_as_long",
    ),
    Mutation(
        9,
        "structure is known by its size alone",
        "keys",
        "return tuple(parts) if",
        "return len(parts) if",
        KEY + "09_structure_is_an_option",
    ),
    Mutation(
        10,
        "a pointer from before a move",
        "keys",
        PLACES,
        "addresses, storages = (), ()",
        KEY + "10_a_move_leaves_no_stale_pointer",
    ),
    Mutation(
        11,
        "a buffer that is cut anew keeps what was in it",
        "buffers",
        "held.cut = _cut(held.storage, shape, dtype)\n        self._clean(held.cut)",
        "held.cut = _cut(held.storage, shape, dtype)",
        MEMORY + "11_buffers_are_cut_anew",
    ),
    Mutation(
        11,
        "a replay does not cut its buffers",
        "recorded",
        "buffers.recut(self.cuts)",
        "pass",
        MEMORY + "11_buffers_are_cut_anew",
    ),
    Mutation(
        11,
        "growing keeps the graphs of the old memory",
        "buffers",
        "so that both are never held at once\n            self._drop()",
        "so that both are never held at once",
        MEMORY + "11_a_smaller_batch_keeps_the_address_and_growing_drops_the_graphs",
    ),
    Mutation(
        12,
        "memory only grows",
        "buffers",
        "if need > have or wasteful:",
        "if need > have:",
        MEMORY + "12_memory_of_one_large_batch_is_let_go",
    ),
    Mutation(
        12,
        "memory that graphs use is let go",
        "buffers",
        " or any(map(len, self._dependents))",
        "",
        MEMORY + "12_memory_that_graphs_use_is_kept",
    ),
    Mutation(
        13,
        "a graph for each address of what is fed",
        "keys",
        "    own = list(bound.values())\n",
        "    own = [*fed.values(), *bound.values()]\n",
        MEMORY + "13_at_most_two_graphs_a_size",
    ),
    Mutation(
        13,
        "an unbounded cache",
        "kept",
        "if self._number >= self._most:",
        "if False:",
        MEMORY + "13_recordings_have_a_limit",
    ),
    Mutation(
        14,
        "another thread's CUDA call fails during a capture",
        "cuda",
        'capture_error_mode="thread_local"',
        'capture_error_mode="global"',
        POLICY + "14_another_thread_pins_memory_during_a_capture",
        gpu=True,
    ),
    Mutation(
        15,
        "a host sync is tried again",
        "history",
        "_remember(self._refused, key.sight[:3], None)",
        "pass",
        POLICY + "15_a_wait_for_the_device_is_tried_once",
    ),
    Mutation(
        15,
        "a value that was read on the host is frozen",
        "watch",
        "if not self._paused:\n            raise",
        "if False:\n            raise",
        POLICY + "15_a_wait_for_the_device_is_tried_once",
    ),
    Mutation(
        16,
        "a replay inside the caller's own capture",
        "graphs",
        "if self.backend.capturing():",
        "if False:",
        POLICY + "16_inside_the_callers_capture",
    ),
    Mutation(
        16,
        "the caller's capture holds memory that we move",
        "buffers",
        "if not self._captured and _captured_elsewhere(place):",
        "if False:",
        POLICY + "16_inside_the_callers_capture",
    ),
    Mutation(
        16,
        "recorded on the CPU",
        "graphs",
        "if why := self.backend.refuses(",
        "if why := (lambda tensors: None)(",
        POLICY + "16_on_the_cpu",
    ),
    Mutation(
        16,
        "memory that is not declared is baked in",
        "watch",
        "if not self.is_external(tensor) and place not in self._made:",
        "if False:",
        POLICY + "16_with_a_parameter_that_is_not_declared",
    ),
    Mutation(
        16,
        "a replay loses the gradient",
        "graphs",
        "if torch.is_grad_enabled() and any(",
        "if False and any(",
        POLICY + "16_where_a_gradient_is_wanted",
    ),
    Mutation(
        17,
        "recorded at first sight",
        "history",
        "if self._record is None and sight not in self._seen:",
        "if False:",
        POLICY + "17_when_a_call_is_recorded",
    ),
    Mutation(
        17,
        "what keeps changing is recorded for ever",
        "history",
        "if len(recorded) < MOST_RECORDINGS:",
        "if True:",
        POLICY + "17_what_keeps_changing_is_named",
    ),
    Mutation(
        18,
        "recording takes memory",
        "graphs",
        "self._kept.keep(key, found)",
        "self._kept.keep(key, found); found.extra = torch.empty(2**10)",
        MEMORY + "18_recording_keeps_no_memory_and_runs_once",
    ),
    Mutation(
        18,
        "the places of what is fed are made by the recording",
        "recorded",
        "flat = buffers.get(name, (like.numel(),), like.dtype, like.device).detach()",
        "flat = torch.empty(like.numel(), dtype=like.dtype, device=like.device)",
        MEMORY + "18_recording_keeps_no_memory_and_runs_once",
    ),
    Mutation(
        24,
        "one more operator a replay",
        "recorded",
        "results.append(leaf.detach())",
        "results.append(leaf.detach().detach())",
        POLICY + "24_host_work_of_a_replay",
    ),
    Mutation(
        24,
        "one more Python call a replay",
        "graphs",
        "owner = self._owner() if found.state else None",
        "owner = self._owner()",
        POLICY + "24_python_calls_of_a_replay",
    ),
    Mutation(
        25,
        "a capture draws random numbers",
        "tape",
        "generator.set_state(state)",
        "pass",
        STATE + "25_from_any_state_of_the_generator",
    ),
    Mutation(
        26,
        "a replay overwrites an earlier result",
        "recorded",
        "results.append(leaf.clone() if isinstance(leaf, Tensor) else leaf)",
        "results.append(leaf)",
        MEMORY + "26_results_are_the_callers_own",
    ),
    Mutation(
        26,
        "an eager call overwrites an earlier result",
        "graphs",
        "return recordings.apart(result, self.buffers)",
        "return result",
        MEMORY + "26_results_of_eager_calls_as_well",
    ),
]


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
    path = os.pathsep.join([str(folder), str(ROOT / "src"), str(ROOT / "kernels")])
    file, _, name = mutation.test.partition("::")
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [
            *command,
            "-p",
            "no:hypothesispytest",
            f"tests/runtime/{file}",
            "-k",
            name.split("::")[-1],
        ],
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
    """The part of docs/runtime.md between its two marks."""
    lines = ["| class | error | mutation | caught by |", "|---|---|---|---|"]
    for one in MUTATIONS:
        old, new = (" ".join(text.split()).replace("|", "\\|") for text in (one.old, one.new))
        change = f"`{old}` -> " + (f"`{new}`" if new else "deleted")
        where = one.test.split("::")[-1] + (" (GPU)" if one.gpu else "")
        lines.append(f"| {one.number} | {one.error} | `{one.module}.py`: {change} | `{where}` |")
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
            print(
                f"{number}/{len(chosen)} {one.number} {one.module}: {one.error}: {found}",
                flush=True,
            )
    print(f"{len(chosen) - bad} of {len(chosen)} red")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
