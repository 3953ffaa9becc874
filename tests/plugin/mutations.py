"""Delete one guard of the suite's core at a time and expect its test to turn red.

    python tests/plugin/mutations.py [WORD ...]   run those whose line has a WORD, or all
    python tests/plugin/mutations.py --table      print docs/mutations.md

Each mutation is one replacement in a copy of `src/pytest_rightfast`; the copy is what the test
imports.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pytest_rightfast"
MARK = "\nimport os as _os\nopen(_os.environ['RIGHTFAST_MUTATED'], 'w').close()\n"


class Mutation(NamedTuple):
    guard: str
    module: str
    old: str
    new: str
    test: str  # file::test, as pytest takes it


FAULTS = "test_planted_faults.py::"
GRADIENTS = FAULTS + "TestGradients::"
MUTATIONS = [
    # Devices
    Mutation(
        "a case that has nothing on the device of the run has no time there",
        "clocks",
        'if found and all(tensor.device.type == "cpu" for tensor in found):',
        "if False:",
        "test_options.py::test_a_case_of_the_cpu_in_a_run_on_a_gpu",
    ),
    # Values
    Mutation(
        "an element beyond its tolerance is wrong",
        "compare",
        "error > expected.abs().add_(rms).mul_(rtol).add_(atol)",
        "error < 0",
        "test_compare.py::TestValues::test_tolerance_by_dtype",
    ),
    Mutation(
        "the error of a leaf as a whole is limited",
        "compare",
        "if not errors.distance <= allowed:",
        "if False:",
        "test_compare.py::TestValues::test_many_small_errors_add_up",
    ),
    Mutation(
        "float32 is judged more strictly than what a narrower type inside would cost",
        "compare",
        '"float32": 1e-5',
        '"float32": 1e-3',
        "test_compare.py::TestValues::test_a_narrower_type_inside_shows",
    ),
    Mutation(
        "NaN is no wildcard",
        "compare",
        "wrong = ~(error <= limit)",
        "wrong = error > limit",
        "test_compare.py::TestValues::test_nan_is_no_wildcard",
    ),
    Mutation(
        "NaN and infinity go the careful way",
        "compare",
        "if not (math.isfinite(size) and math.isfinite(distance)):",
        "if False:",
        "test_compare.py::TestValues::test_infinities",
    ),
    Mutation(
        "integers and bools are exact",
        "compare",
        "wrong = left != right",
        "wrong = (left != right) & False",
        "test_compare.py::TestValues::test_integers_and_bools_are_exact",
    ),
    Mutation(
        "denormals are allowed steps, zeros are not",
        "compare",
        "if right.any():",
        "if True:",
        "test_compare.py::TestValues::test_zeros_must_be_zero",
    ),
    Mutation(
        "comparing does not write into the answer",
        "compare",
        "(one.to(torch.float64) - wanted)",
        "one.to(torch.float64).sub_(wanted)",
        "test_compare.py::TestValues::test_the_judged_answer_is_not_touched",
    ),
    Mutation(
        "shapes must agree",
        "compare",
        "if left.shape != right.shape:",
        "if left.numel() != right.numel():",
        "test_compare.py::TestShapeAndDtype::test_shape",
    ),
    Mutation(
        "dtypes must agree",
        "compare",
        "if dtypes and left.dtype not in dtypes:",
        "if False:",
        "test_reference.py::TestDtypes::test_wrong_dtype",
    ),
    Mutation(
        "structures must agree",
        "compare",
        "or trees.kind(got) != trees.kind(expected)",
        "",
        "test_compare.py::TestStructure::test_other_kinds_are_not",
    ),
    # Memory and time of the work
    Mutation(
        "an unwritten element shows: memory is poisoned",
        "poison",
        "    perturb(_PERTURB_BYTE)\n",
        "",
        "test_poison.py::test_torch_blocks",
    ),
    Mutation(
        "small blocks of a worn heap are poisoned too",
        "poison",
        "        free(malloc(2**20))\n",
        "",
        "test_poison.py::test_small_blocks_of_a_worn_heap",
    ),
    Mutation(
        "the poison is off again before anything is timed",
        "poison",
        "        perturb(0)\n",
        "        pass\n",
        "test_poison.py::test_switched_off_afterwards",
    ),
    Mutation(
        "a result is copied at once: what a thread adds later does not count",
        "verify",
        "copies = found.snapshot()",
        "copies = found",
        FAULTS + "test_output_buffer_reused[float32-1]",
    ),
    Mutation(
        "a tensor that computes when it is looked at is no result",
        "compare",
        "if type(leaf) in (torch.Tensor, torch.nn.Parameter):",
        "if isinstance(leaf, torch.Tensor):",
        FAULTS + "test_lazy_tensor[float32]",
    ),
    Mutation(
        "a dict that computes its items when it is read is no result",
        "trees",
        "isinstance(node, dict) and type(node).items in kept",
        "isinstance(node, dict)",
        FAULTS + "test_lazy_containers",
    ),
    Mutation(
        "a list that computes its items when it is read is no result",
        "trees",
        " and type(node).__iter__ in (tuple.__iter__, list.__iter__)",
        "",
        FAULTS + "test_lazy_containers",
    ),
    # Inputs and earlier results
    Mutation(
        "a mutated input is seen",
        "verify",
        "return self._mutated_input(call, pristine)",
        "return None",
        FAULTS + "test_mutated_input[float32]",
    ),
    Mutation(
        "a number or a length inside of an input is an input",
        "bits",
        "if path != other or (plain and not (a == b or a != a)):",
        "if False:",
        "test_verify.py::TestInputs::test_number_in_an_input_changed",
    ),
    Mutation(
        "a list that lost an item has changed",
        "bits",
        "if len(mine) != len(theirs):",
        "if False:",
        "test_verify.py::TestInputs::test_structure_of_an_input_changed",
    ),
    Mutation(
        "draws never share memory",
        "case",
        "_as_call(self.inputs(_generator(seed))).map(leaves.clone)",
        "_as_call(self.inputs(_generator(seed)))",
        "test_verify.py::TestInputs::test_one_tensor_for_all_draws",
    ),
    Mutation(
        "draws that do not differ are an error",
        "verify",
        "        self._differing_draws()\n",
        "",
        "test_verify.py::TestInputs::test_draws_that_do_not_differ",
    ),
    Mutation(
        "given tensors are drawn anew: the first answer returned for ever is wrong",
        "case",
        "if not self.vary or generator.initial_seed() % DRAWS == 0:",
        "if True:",
        FAULTS + "test_first_answer_returned_forever[float32]",
    ),
    Mutation(
        "a module's parameters are never ones",
        "leaves",
        "parameter.add_(_normal_like(parameter, generator), alpha=0.1)",
        "pass",
        "test_reference.py::test_default_parameters_hide_nothing",
    ),
    Mutation(
        "a result must outlive the next call",
        "verify",
        "self._same_address() or self._families() or self._reused()",
        "self._same_address() or self._families()",
        "test_verify.py::test_reused_memory_shows_before_timing",
    ),
    Mutation(
        "a result must outlive all later calls",
        "verify",
        "return self._once(2) or self._reused()",
        "return self._once(2)",
        FAULTS + "test_output_buffer_reused[float32-3]",
    ),
    Mutation(
        "also where all draws are equal",
        "verify",
        "return wrong or (None if self.case.vary else self._static_memory())",
        "return wrong",
        "test_verify.py::test_reused_memory_where_all_draws_are_equal",
    ),
    Mutation(
        "new values at an old address get their own answer",
        "verify",
        "wrong = self._same_address() or self._families()",
        "wrong = self._families()",
        FAULTS + "test_answers_kept_by_address[float32]",
    ),
    Mutation(
        "an answer that is looked up is no work",
        "fixture",
        "wrong = wrong or verifier.cached()",
        "pass",
        FAULTS + "test_result_cached_by_value[float32]",
    ),
    Mutation(
        "input families are verified",
        "verify",
        "wrong = self._same_address() or self._families() or",
        "wrong = self._same_address() or",
        "test_verify.py::TestFamilies::test_ties",
    ),
    # References
    Mutation(
        "a torch reference below float64 is refused, and the operator named",
        "reference",
        "if isinstance(leaf, torch.Tensor) and leaf.dtype != leaves.wide(leaf.dtype):",
        "if False:",
        FAULTS + "test_float32_reference_torch[float32]",
    ),
    Mutation(
        "any reference below float64 is refused by its response",
        "verify",
        "self.users(check_response, self.case, call)",
        "pass",
        FAULTS + "test_float32_reference_numpy[float32]",
    ),
    Mutation(
        "every leaf of a reference must respond, not most of them",
        "reference",
        "if share is not None and share < 0.9:",
        "if share is not None and share < 0.5:",
        "test_reference.py::TestResponse::test_one_narrow_band_of_a_leaf",
    ),
    Mutation(
        "inputs come to the reference in float64",
        "reference",
        "wide = call.map(leaves.double)",
        "wide = call.map(leaves.clone)",
        FAULTS + "test_right_answers_pass[float32]",
    ),
    Mutation(
        "a reference that failed meets every backend",
        "verify",
        "found = self.users(expect, self.case, call, *dtypes)",
        "self.cache[known] = dtypes; found = self.users(expect, self.case, call, *dtypes)",
        "test_reference.py::test_every_backend_meets_the_guards",
    ),
    Mutation(
        "a case with neither reference nor check is an error",
        "case",
        "if case.reference is None and case.check is None:",
        "if False:",
        "test_case.py::test_refused_with_a_remedy",
    ),
    Mutation(
        "a check that says no is heard",
        "verify",
        "if verdict is None or verdict is True:",
        "if True:",
        "test_verify.py::TestCheck::test_refuses",
    ),
    # Gradients
    Mutation(
        "a gradient that was never computed is wrong",
        "verify",
        'else Mismatch(where, "no gradient was computed")',
        "else None",
        GRADIENTS + "test_never_computed[float32-only]",
    ),
    Mutation(
        "gradients are compared with the reference's autograd",
        "verify",
        "wrong = wrong or self._gradient(found.gradients.get(name), gradient, name)",
        "pass",
        GRADIENTS + "test_scaled_by_two[float32-only]",
    ),
    Mutation(
        "gradients are compared with slopes where the reference has no autograd",
        "verify",
        "if not abs(slope - value) <= limit:",
        "if False:",
        GRADIENTS + "test_numpy_reference[only]",
    ),
    Mutation(
        "slopes are judged as strictly as elements, not as ten of them",
        "verify",
        "max(2 * self.tolerance.relative(plain.dtype), 1e-6)",
        "max(100 * self.tolerance.relative(plain.dtype), 1e-6)",
        GRADIENTS + "test_numpy_reference[only]",
    ),
    Mutation(
        "a gradient of NaN where there should be none is wrong",
        "verify",
        "wanted = got.new_zeros(got.shape)",
        "wanted = got * 0",
        GRADIENTS + "test_nan_where_the_reference_has_none[only]",
    ),
    # In place
    Mutation(
        "what a call should change is compared",
        "verify",
        "wrong = wrong or self._compare(found.mutated[key], value, None, name)",
        "pass",
        "test_verify.py::TestMutates::test_wrong_values",
    ),
    Mutation(
        "consumed inputs are restored before every sample",
        "clock_cpu",
        "    assert target.reset is not None\n    target.reset()\n",
        "    assert target.reset is not None\n",
        "test_clock_cpu.py::test_consumed_inputs_are_reset_outside_the_clock",
    ),
    # Timing
    Mutation(
        "what timed rounds return is judged",
        "verify",
        "        for number, found in kept:\n",
        "        for number, found in ():\n",
        "test_verify.py::test_timed_rounds_are_judged",
    ),
    Mutation(
        "an answer passes for one that was judged only if all of its bits are the same",
        "bits",
        "return alike and right.layout is torch.strided and _same_bits(left, right)",
        "return alike",
        "test_verify.py::test_timed_rounds_are_judged",
    ),
    Mutation(
        "what other programs did meanwhile is not the call's time",
        "stopwatch",
        "foreign = preempted != begun.preempted and waited == begun.waited",
        "foreign = False",
        "test_stopwatch.py::test_which_clock_is_believed",
    ),
    Mutation(
        "what the call waits for is its time",
        "stopwatch",
        "preempted != begun.preempted and waited == begun.waited",
        "preempted != begun.preempted",
        "test_stopwatch.py::test_which_clock_is_believed",
    ),
    Mutation(
        "garbage is not collected while the clock runs",
        "clock_cpu",
        "    gc.disable()\n",
        "",
        "test_clock_cpu.py::test_garbage_collection_is_off_and_restored",
    ),
    Mutation(
        "a time beyond what the machine can do is not believed",
        "machine",
        "if seconds * IMPLAUSIBLE >= least:",
        "if True:",
        "test_verify.py::test_implausible_time",
    ),
    Mutation(
        "only counts that repeat are exact",
        "counters",
        "if second.get(name) == n",
        "if True",
        "test_counters.py::test_what_does_not_repeat_is_named",
    ),
    # Global state
    Mutation(
        "global state changed by importing a file is an error",
        "plugin",
        "session.import_changes[collector.nodeid or str(collector.path)] = changed",
        "pass",
        FAULTS + "test_state_switched_on_by_an_import",
    ),
    Mutation(
        "global state changed by a conftest is an error",
        "plugin",
        'session.import_changes["a conftest.py or a plugin, before collection"] = changed',
        "pass",
        FAULTS + "test_state_switched_on_by_a_conftest",
    ),
    Mutation(
        "global state changed by a call is an error",
        "fixture",
        "            self._check_state(row, before)\n",
        "            pass\n",
        FAULTS + "test_state_switched_on_by_a_call",
    ),
    Mutation(
        "it is put back for the next case",
        "fixture",
        "            restore(before)\n",
        "",
        FAULTS + "test_state_switched_on_by_a_call",
    ),
    # The run
    Mutation(
        "a wrong subject fails the run",
        "fixture",
        'raise WrongAnswer(f"{row.backend} is wrong: {wrong}")',
        "pass",
        "test_plugin.py::test_subjects_fail_the_run",
    ),
    Mutation(
        "a wrong peer does not",
        "fixture",
        'pytest.skip(f"peer {row.backend} is wrong: {wrong}")',
        "pass",
        "test_plugin.py::test_peers",
    ),
    Mutation(
        "a wrong case has no time",
        "fixture",
        'row.status, row.reason, row.samples = "wrong", str(wrong), []',
        'row.status, row.reason = "wrong", str(wrong)',
        "test_verify.py::test_timed_rounds_are_judged",
    ),
    Mutation(
        "a test that fails after timing leaves no time",
        "plugin",
        'if row.status == "ok" and (report is None or not report.passed):',
        "if False:",
        "test_benchmark.py::test_a_case_that_is_not_right_is_not_saved[assertion]",
    ),
    Mutation(
        "nothing measured is never green",
        "plugin",
        "session.exitstatus = ExitCode.MISSING",
        "pass",
        "test_plugin.py::test_nothing_measured_is_never_green",
    ),
    Mutation(
        "a stored answer's accuracy is held against this run's",
        "stored",
        "error_ratio=worst_ratio(old.errors, row.errors)",
        "error_ratio=None",
        "test_stored.py::test_what_fails_at_once",
    ),
    Mutation(
        "stored counters gate",
        "stored",
        "counters=exact_counters([old.counters] * 2, [row.counters] * 2, *versions)",
        "counters={}",
        "test_stored.py::test_what_fails_at_once",
    ),
    Mutation(
        "what the stored run has and this one has not is gone",
        "stored",
        "head = Side(Status.ABSENT)",
        "continue",
        "test_stored.py::test_gone_and_new",
    ),
    Mutation(
        "a part of the suite makes nothing gone",
        "stored",
        "elif whole:",
        "elif True:",
        "test_stored.py::test_gone_and_new",
    ),
    Mutation(
        "a subject that became a peer is not measured",
        "stored",
        'head = Side(Status.NOT_MEASURED, "it is a peer now")',
        "continue",
        "test_stored.py::test_a_subject_that_became_a_peer_is_not_measured",
    ),
    Mutation(
        "what was to run and did not is not measured",
        "stored",
        "elif name in asked:",
        "elif False:",
        "test_stored.py::test_what_was_to_run_and_did_not_is_not_measured",
    ),
    Mutation(
        "a damaged stored run decides nothing",
        "stored",
        "if not 0 < median <= upper < math.inf:",
        "if False:",
        "test_stored.py::test_a_damaged_run_is_refused",
    ),
    Mutation(
        "a wrong answer that the test hushes up is not green",
        "plugin",
        "session.exitstatus = ExitCode.ANSWERS",
        "pass",
        "test_comparison.py::test_a_wrong_answer_that_the_test_hushes_up",
    ),
    Mutation(
        "the work of a child process is the call's time",
        "stopwatch",
        " and not children()",
        "",
        "test_stopwatch.py::test_work_of_a_child_counts",
    ),
    Mutation(
        "a stored time from elsewhere decides nothing",
        "stored",
        "if why := elsewhere(row, old):",
        'if why := "":',
        "test_stored.py::TestSuspects::test_a_time_from_elsewhere_decides_nothing",
    ),
    Mutation(
        "a run that was made with uncommitted changes confirms nothing",
        "comparison",
        "if run.dirty:",
        "if False:",
        "test_comparison.py::test_what_cannot_be_confirmed_says_so",
    ),
    Mutation(
        "the verdicts' exit code comes before pytest-benchmark's",
        "plugin",
        "running.exitstatus = running.exitstatus or ExitCode.SLOWER",
        "running.exitstatus = ExitCode.SLOWER",
        "test_comparison.py::test_our_code_comes_before_pytest_benchmarks_own",
    ),
    Mutation(
        "a second --benchmark-compare-fail is not lost in silence",
        "refused",
        "if len(flags) > 1:",
        "if False:",
        "test_comparison.py::test_a_repeated_compare_fail_is_refused",
    ),
    Mutation(
        "to compare without a name means main",
        "baseline",
        "return find(config, MAIN) if local else None",
        "return None",
        "test_comparison.py::test_compare_without_a_name_means_main_not_the_last_run",
    ),
    Mutation(
        "a test that never calls perf is an error",
        "plugin",
        "if measured.row is None and row.reason == NEVER_CALLED:",
        "if False:",
        "test_plugin.py::test_perf_that_is_never_called",
    ),
    Mutation(
        "a baseline is never a part",
        "baseline",
        "if not ok or partial or not benchmarks:",
        "if not ok or not benchmarks:",
        "test_benchmark.py::TestBaseline::test_never_from_a_part",
    ),
    Mutation(
        "a baseline is never from a failed run",
        "baseline",
        "if not ok or partial or not benchmarks:",
        "if partial or not benchmarks:",
        "test_benchmark.py::TestBaseline::test_never_from_a_failed_run",
    ),
    Mutation(
        "what is compared with exists",
        "plugin",
        "if cases and compared and not perf_session.compared:",
        "if False:",
        "test_benchmark.py::test_nothing_to_compare_with",
    ),
    Mutation(
        "options of pytest-benchmark's own loop are refused",
        "refused",
        "        if str(value) != str(default):\n",
        "        if False:\n",
        "test_benchmark.py::test_options_of_its_own_loop_are_refused_by_name",
    ),
    Mutation(
        "so are its markers",
        "refused",
        "        _refuse_marker(item)\n",
        "        pass\n",
        "test_benchmark.py::test_markers_of_its_own_loop_are_refused_by_name",
    ),
    Mutation(
        "perf cases do not run beside other workers",
        "plugin",
        "    refuse_workers(request.config)\n",
        "",
        "test_options.py::test_xdist_is_refused",
    ),
    Mutation(
        "CPUs are given back",
        "plugin",
        "        os.sched_setaffinity(0, session.affinity)\n",
        "        pass\n",
        "test_options.py::test_cpus_are_pinned_and_restored",
    ),
    Mutation(
        "an old results file does not pass for this run's",
        "runs",
        "        save(session.options.json, rows)",
        "        rows and save(session.options.json, rows)",
        "test_options.py::test_json_is_written_whatever_happens",
    ),
    # Results
    Mutation(
        "a results file is replaced whole or not at all",
        "results",
        "        os.replace(temporary, path)\n",
        "        open(path, 'w').write(open(temporary).read()); os.replace(temporary, path)\n",
        "test_results.py::test_a_failing_write_leaves_the_old_file",
    ),
    Mutation(
        "NaN is not written",
        "results",
        "allow_nan=False",
        "allow_nan=True",
        "test_results.py::test_what_is_no_json_is_not_written",
    ),
    Mutation(
        "NaN is not read",
        "results",
        "parse_constant=_refuse",
        "parse_constant=float",
        "test_results.py::test_what_is_no_number",
    ),
    Mutation(
        "another schema is not read",
        "results",
        'if content["schema"] != SCHEMA or content["schema"] is True:',
        "if False:",
        "test_results.py::test_foreign_files",
    ),
    Mutation(
        "a field of another kind is not read",
        "results",
        "if not _fits(value, hints[name]):",
        "if False:",
        "test_results.py::test_fields_that_do_not_fit",
    ),
    # Runs of several processes, files of several runs
    Mutation(
        "wrong in any process is wrong",
        "repeats",
        "worst = min(rows, key=lambda row: WORST.index(row.status))",
        "worst = max(rows, key=lambda row: WORST.index(row.status))",
        "test_repeats.py::test_what_goes_wrong_in_one_process_alone",
    ),
    Mutation(
        "the median is that of the processes, not of all samples",
        "rows",
        "return statistics.median(self._medians) if self.samples else None",
        "return statistics.median(self.samples) if self.samples else None",
        "test_repeats.py::test_the_median_is_that_of_the_processes",
    ),
    Mutation(
        "a case that is there twice is not merged",
        "merge",
        "if (what := identity(row)) in seen:",
        "if (what := identity(row)) in ():",
        "test_report.py::test_bad_files_are_named_and_overwrite_nothing",
    ),
    Mutation(
        "merged rows come in the order of the collection",
        "tables",
        'return sorted(rows, key=lambda row: (place[row.id.partition("::")[0]], row.order))',
        "return list(rows)",
        "test_report.py::test_split_files_report_what_the_live_run_said",
    ),
    Mutation(
        "a run that is resumed takes no rows of other code",
        "resume",
        "return (*identity(row), row",
        "return (row.id,)\n    return (row",
        "test_journal.py::test_other_rows_are_measured_again",
    ),
    Mutation(
        "a run that is resumed keeps the rows that it does not select",
        "resume",
        "not self._foreign(row, here) and _place(row) not in done",
        "False",
        "test_journal.py::test_rows_that_are_not_selected_are_kept",
    ),
    Mutation(
        "a run that is resumed drops no rows of other code",
        "resume",
        "        if lost:",
        "        if False:",
        "test_journal.py::test_rows_of_other_code_are_not_lost",
    ),
    Mutation(
        "a run that is killed keeps its finished cases",
        "runs",
        "session.journal.keep([row])",
        "pass",
        "test_journal.py::test_finished_cases_are_kept_and_not_run_again",
    ),
    Mutation(
        "a warm heap maps nothing anew",
        "heap",
        "_MMAP_MAX: 0, _TRIM_THRESHOLD: -1}",
        "_TRIM_THRESHOLD: -1}",
        "test_heap.py::test_faults_of_both_libraries",
    ),
    Mutation(
        "starting pytest does not import torch",
        "replay",
        "import pytest\n",
        "import pytest\nimport torch\n",
        "../test_startup.py::test_an_ordinary_run_imports_no_torch",
    ),
]


def count(mutation: Mutation) -> int:
    """How often the guard's text stands in its file."""
    return (SOURCE / f"{mutation.module}.py").read_text(encoding="utf-8").count(mutation.old)


def outcome(mutation: Mutation, folder: Path) -> str:
    """`red` if the test fails with the mutation; otherwise what went wrong."""
    copy = folder / "pytest_rightfast"
    if copy.exists():
        shutil.rmtree(copy)
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    target, start, proof = copy / f"{mutation.module}.py", copy / "__init__.py", folder / "proof"
    text = target.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        return f"stale: its text is there {text.count(mutation.old)} times"
    target.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    start.write_text(start.read_text(encoding="utf-8") + MARK, encoding="utf-8")
    proof.unlink(missing_ok=True)
    points = metadata.entry_points(group="pytest11")
    named = [] if "rightfast" in points.names else ["-p", "pytest_rightfast.plugin"]
    path = os.pathsep.join([str(folder), str(ROOT / "src"), str(ROOT / "kernels")])
    command = [sys.executable, "-m", "pytest", *named, "-qx", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-p", "no:hypothesispytest", str(ROOT / "tests" / "plugin" / mutation.test)],
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
    lines = [
        "# Guards of the suite's core, and the test of each",
        "",
        "Written by `python tests/plugin/mutations.py --table`. Without `--table` it makes each",
        "change in a copy of the sources and expects the test to turn red; `make test-slow` does",
        "the same. The gate has [its own table](gate-guards.md).",
        "",
        "| guard | mutation | test in `tests/plugin` |",
        "|---|---|---|",
    ]
    for one in MUTATIONS:
        old, new = (" ".join(text.split()).replace("|", "\\|") for text in (one.old, one.new))
        change = f"`{old}` -> " + (f"`{new}`" if new else "deleted")
        lines.append(f"| {one.guard} | `{one.module}.py`: {change} | `{one.test}` |")
    return "\n".join(lines) + "\n"


def main(words: list[str]) -> int:
    if words == ["--table"]:
        print(table(), end="")
        return 0
    chosen = [one for one in MUTATIONS if not words or any(word in str(one) for word in words)]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, one in enumerate(chosen, 1):
            found = outcome(one, Path(folder))
            bad += found != "red"
            print(f"{number}/{len(chosen)} {one.module}: {one.guard}: {found}", flush=True)
    print(f"{len(chosen) - bad} of {len(chosen)} red")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
