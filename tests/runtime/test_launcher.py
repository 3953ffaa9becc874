"""The launcher finds the kernel that Triton would find: keys, and sequences of launches."""

from __future__ import annotations

import copy
import gc
import itertools
import random
import weakref

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rightfast.runtime import launchable, triton_forms

from . import launch_cases, triton_fakes
from .launch_cases import (
    DTYPES,
    EDGES,
    PLAIN,
    STRUCTURES,
    VALUES,
    at,
    both,
    global_kernel,
    key_maker,
    meta_kernel,
    own_key,
    pair_kernel,
    scale_kernel,
    tl,
)


class TestKeys:
    """Class 19: the keys are Triton's, entry by entry."""

    @pytest.mark.parametrize("kernel", STRUCTURES, ids=lambda kernel: kernel.__name__)
    def test_a_key_tells_apart_what_triton_tells_apart(self, recording, kernel):
        triton_fakes.prepare(kernel, recording)
        key_of = key_maker(launchable(kernel), None, None)
        seen: dict = {}
        for arguments in itertools.product(VALUES, VALUES):
            key, theirs = key_of((1,), *arguments), own_key(kernel, arguments, {})
            if key is None and kernel is meta_kernel:
                continue  # constants of any kind: in C there are no keys for those
            assert key is not None
            assert seen.setdefault(key, theirs) == theirs, arguments
        assert len(seen) > 100
        if kernel in PLAIN:
            # And no more: a finer key would hide that something was read wrongly.
            assert len(set(seen.values())) == len(seen)

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def test_any_values(self, recording, data):
        """Two launches have one key if and only if they have one key in Triton."""
        kernel = data.draw(st.sampled_from(PLAIN))
        key_of = key_maker(launchable(kernel), None, None)
        value = st.one_of(
            st.integers(-(2**63), 2**64 - 1),
            st.integers(-40, 40),
            st.integers(2**31 - 40, 2**31 + 40),
            st.sampled_from(EDGES),
            st.booleans(),
            st.none(),
            st.floats(),
            st.builds(at, st.integers(0, 40), st.sampled_from(DTYPES)),
        )
        calls = data.draw(st.tuples(*[st.tuples(value, value)] * 2))
        ours = [key_of((1,), *call) for call in calls]
        theirs = [own_key(kernel, call, {}) for call in calls]
        assert (ours[0] == ours[1]) == (theirs[0] == theirs[1]), calls


class TestStaleSignature:
    """Class 23: after any launch, the next one finds its own kernel."""

    @pytest.mark.parametrize("kernel", STRUCTURES, ids=lambda kernel: kernel.__name__)
    def test_every_structure_in_any_order(self, recording, kernel):
        triton_fakes.prepare(kernel, recording)
        launch = launchable(kernel)
        calls = list(itertools.product(VALUES, VALUES))
        random.Random(0).shuffle(calls)
        for arguments in calls[:400]:
            ours, theirs = both(recording, launch, (3, 2), *arguments)
            assert ours == theirs, arguments
        assert launch.direct
        assert launch.reason == ""
        assert len(launch.entries) > 50
        assert (recording.in_c > 10) == (launch.native is not None)

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (at(0), at(1)),
            (at(0), at(0, torch.bfloat16)),
            (at(0), None),
            (at(0), 64),
            (16, 17),
            (17, 1),
            (16, 2**31),
            (2**63 - 16, 2**63),
            (1, True),
            (1, 1.0),
            (0, None),
            (17, None),
            (17, 0.5),
            (True, None),
            (0.5, True),
        ],
        ids=str,
    )
    def test_there_and_back(self, recording, first, second):
        triton_fakes.prepare(pair_kernel, recording)
        launch = launchable(pair_kernel)
        functions = []
        for value in (first, second, first, second, second, first, first):
            ours, theirs = both(recording, launch, (1,), value, value)
            assert ours == theirs
            functions.append(ours["function"])
        one, other = functions[:2]
        assert one != other
        assert functions[2:] == [one, other, other, one, one]
        assert recording.in_c == (0 if launch.native is None else 5)

    @pytest.mark.parametrize(
        "values", [(64, 128), (1, True), (1, 1.0), (0, None), ("a", "b"), (tl.float32, tl.float16)]
    )
    @pytest.mark.parametrize("name", ["FIRST", "SECOND"])
    def test_each_constexpr(self, recording, name, values):
        triton_fakes.prepare(meta_kernel, recording)
        launch = launchable(meta_kernel)
        for value in (*values, *values):
            named = {"FIRST": 8, "SECOND": 8, name: value}
            ours, theirs = both(recording, launch, (1,), at(0), **named)
            assert ours == theirs

    def test_options(self, recording):
        triton_fakes.prepare(scale_kernel, recording)
        launch = launchable(scale_kernel, BLOCK=64)
        warps = []
        for options in [{}, {"num_warps": 8}, {"num_warps": 1}, {"num_stages": 2}, {}] * 2:
            ours, theirs = both(recording, launch, (1,), at(0), at(8), 8, **options)
            assert ours == theirs
            warps.append(ours["flags"][-1][0])
        assert warps == [4, 8, 1, 4, 4] * 2

    def test_fixed_meta_parameters(self, recording):
        triton_fakes.prepare(meta_kernel, recording)
        launches = [
            launchable(meta_kernel, FIRST=first, num_warps=warps)
            for first in (1, True, 64)
            for warps in (4, 8)
        ]
        for launch in launches * 2:
            ours, theirs = both(recording, launch, (1,), at(0))
            assert ours == theirs

    def test_settings_that_are_in_tritons_key(self, recording, monkeypatch):
        from triton import knobs

        triton_fakes.prepare(scale_kernel, recording)
        launch = launchable(scale_kernel, BLOCK=64)
        changes = [
            (scale_kernel, "debug", True),
            (knobs.runtime, "debug", True),
            (knobs.compilation, "instrumentation_mode", "other"),
        ]
        functions = {both(recording, launch, (1,), at(0), at(8), 8)[0]["function"]}
        for owner, name, value in changes:
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, value)
                ours, theirs = both(recording, launch, (1,), at(0), at(8), 8)
                assert ours == theirs
                functions.add(ours["function"])
        # Both debugs mean one thing to Triton.
        assert len(functions) == 3
        ours, theirs = both(recording, launch, (1,), at(0), at(8), 8)
        assert ours == theirs

    def test_devices_and_streams(self, recording):
        triton_fakes.prepare(pair_kernel, recording, 0, 1)
        launch = launchable(pair_kernel)
        for device, stream in [(0, 7), (0, 8), (1, 7), (0, 7), (1, 9)]:
            recording.device, recording.stream = device, stream
            ours, theirs = both(recording, launch, (1,), at(0), 3)
            assert ours == theirs
            assert ours["stream"] == 100 * device + stream
        assert len(launch.entries) == 2

    @pytest.mark.parametrize(
        ("value", "change"),
        [
            (tl.constexpr(2), lambda known: known.update(SCALE=tl.constexpr(3))),
            (tl.constexpr(2), lambda known: vars(known["SCALE"]).update(value=3)),
            (tl.constexpr(2), lambda known: known.pop("SCALE")),
            (tl.constexpr([2]), lambda known: known["SCALE"].value.append(3)),
            ((tl.constexpr(2),), lambda known: vars(known["SCALE"][0]).update(value=3)),
            ([2], lambda known: known["SCALE"].append(3)),
            (tl.constexpr(2), lambda known: known.update(SCALE=tl.constexpr(2))),
            (tl.constexpr(2), lambda known: known.update(SCALE=2)),
            (2, lambda known: known.update(SCALE=2.0)),
        ],
    )
    def test_a_global_is_compared_as_triton_compares_it(self, recording, value, change):
        known = {"SCALE": copy.deepcopy(value)}
        triton_fakes.prepare(global_kernel, recording)
        launch = launchable(global_kernel)
        launch((1,), at(0))
        global_kernel.used_global_vals = {("SCALE", 0): (copy.deepcopy(value), known)}
        for _ in range(3):
            both(recording, launch, (1,), at(0))
        change(known)
        for _ in range(3):
            raised = []
            for function in (launch, lambda grid, x: global_kernel[grid](x)):
                try:
                    function((1,), at(0))
                except RuntimeError as error:
                    raised.append(str(error).split(" to ")[0])
            assert len(raised) in (0, 2)
            assert raised[:1] == raised[1:]

    def test_a_global_that_another_thread_changes_meanwhile(self):
        class Known(dict):
            def get(self, name, default=None):
                found = super().get(name, default)
                self[name] = 3
                return found

        seen, used = triton_forms.Globals(), {("SCALE", 0): (2, Known(SCALE=2))}
        assert [seen.changed(used) for _ in range(3)] == [False, True, True]

    def test_globals_live_no_longer_than_their_kernel(self, recording):
        known = {"SCALE": tl.constexpr(2)}
        alive = weakref.ref(known["SCALE"])
        triton_fakes.prepare(global_kernel, recording)
        launch = launchable(global_kernel)
        launch((1,), at(0))
        global_kernel.used_global_vals = {("SCALE", 0): (tl.constexpr(2), known)}
        launch((1,), at(0))
        global_kernel.used_global_vals = {}
        del launch, known
        gc.collect()
        assert alive() is None

    def test_a_changed_global(self, recording, monkeypatch):
        triton_fakes.prepare(global_kernel, recording)
        launch = launchable(global_kernel)
        launch((1,), at(0))
        global_kernel.used_global_vals = {("SCALE", 0): (2.0, vars(launch_cases))}
        launch((1,), at(0))
        monkeypatch.setattr(launch_cases, "SCALE", 3.0)
        with pytest.raises(RuntimeError, match="SCALE has changed"):
            launch((1,), at(0))
