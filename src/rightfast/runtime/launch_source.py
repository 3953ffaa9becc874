"""The source of a launch function: one kernel's arguments bound, keyed and launched in one pass.

Triton compiles a kernel anew for each *specialisation* of its arguments: the dtype of a pointer and
whether it is a multiple of 16; the width of an integer, whether it is 1 and whether it is a
multiple of 16; None; every constexpr. The key made here tells apart whatever Triton tells apart,
so that a kernel found under it is the one that Triton would have found. What the key does not know
(a tensor subclass, a tuple, a tensor descriptor) raises `Foreign`, and the launch goes through
Triton.

The function is generated, as `dataclasses` and Triton's own binder are, because a loop over
parameters costs more than the launch.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PREFIX = "_rf_"  # of every name in the source that is no parameter of the kernel

# Launches that Triton has to see.
SPECIAL = (
    "_rf_captures or _rf_enter.calls or _rf_exit.calls "
    "or _rf_runtime_set and _rf_hooked() or _rf_kernel.pre_run_hooks "
    "or _rf_kernel.used_global_vals and _rf_changed(_rf_kernel.used_global_vals)"
)


class Foreign(Exception):
    """An argument of a kind that the key does not know."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel, as far as a launch needs it."""

    name: str
    constexpr: bool
    specialize: bool  # an integer's value and a pointer's alignment count
    align: bool  # being a multiple of 16 counts
    keyword_only: bool
    default: bool


def parameters(kernel: Any) -> list[Parameter]:
    """The parameters of a Triton `JITFunction`, in order."""
    found = []
    for known in kernel.params:
        signed = kernel.signature.parameters[known.name]
        found.append(
            Parameter(
                known.name,
                bool(known.is_constexpr),
                not known.do_not_specialize,
                not known.do_not_specialize_on_alignment,
                signed.kind is inspect.Parameter.KEYWORD_ONLY,
                signed.default is not inspect.Parameter.empty,
            )
        )
    return found


def refused(kernel: Any) -> str:
    """Why no launch function can be made for these parameters, or an empty string."""
    for name, signed in kernel.signature.parameters.items():
        if signed.kind is inspect.Parameter.VAR_POSITIONAL:
            return f"*{name} takes any number of arguments"
        if name.startswith(PREFIX):
            return f"the name {name} is taken"
    return ""


def wide(value: int, aligned: bool) -> str:
    """The key of an integer beyond 32 bits."""
    if -(2**63) <= value < 2**63:
        kind = "i64"
    elif 0 <= value < 2**64:
        kind = "u64"
    else:
        raise Foreign
    return f"{kind}/16" if aligned and value % 16 == 0 else kind


def _integer(one: Parameter) -> str:
    """The key of an integer: 1, a multiple of 16, or any, within 32 bits; else its width too."""
    name = one.name
    aligned = one.specialize and one.align
    small = f"(16 if not {name} & 15 else 0)" if aligned else "0"
    key = f"{small} if -0x80000000 <= {name} <= 0x7fffffff else {PREFIX}wide({name}, {aligned})"
    return f"1 if {name} == 1 else {key}" if one.specialize else key


def binding(number: int, one: Parameter) -> list[str]:
    """Lines that give argument `number` its key `_rf_k` and what is passed on, `_rf_p`.

    A CUDA tensor is passed as its address, which spares the launcher a call and a query of the
    driver; any other tensor as it is, so that Triton refuses what the device cannot read.
    """
    if one.constexpr:
        return []
    name, key, passed = one.name, f"{PREFIX}k{number}", f"{PREFIX}p{number}"
    odd = f"if {passed} & 15: {key} = {PREFIX}odd({key})"
    return [
        f"{PREFIX}c = {name}.__class__",
        f"if {PREFIX}c is {PREFIX}Tensor or {PREFIX}c is {PREFIX}Weight:",
        f"    {passed} = {name}.data_ptr()",
        f"    {key} = {name}.dtype",
        *([f"    {odd}"] if one.specialize and one.align else []),
        f"    if not {name}.is_cuda: {passed} = {name}",
        f"elif {PREFIX}c is {PREFIX}int:",
        f"    {passed} = {name}",
        f"    {key} = {_integer(one)}",
        f"elif {PREFIX}c in {PREFIX}plain:",
        f"    {passed} = {name}",
        f"    {key} = {PREFIX}c",
        f"else: raise {PREFIX}Foreign",
    ]


class Source:
    """The text of the two functions of one kernel, `launch` and `key_of`.

    A parameter may have any name, `len` too: all other names in it begin with `PREFIX`.

    Args:
        found: the kernel's parameters.
        fixed: names of constexpr parameters whose values are given beforehand.
        form: how the launcher of this Triton is called: "flat" or "packed".
        knobs: expressions that Triton reads at every launch and that are in its own key.
        native: whether a launch is tried in C first; what is left to Python goes on here.
    """

    def __init__(
        self,
        found: list[Parameter],
        fixed: Mapping[str, Any],
        form: str,
        knobs: list[str],
        native: bool = False,
    ) -> None:
        self.found = found
        self.fixed = fixed
        self.given = [one for one in found if one.name not in fixed]
        self.form = form
        self.knobs = knobs
        self.native = native

    def text(self) -> str:
        bound = [line for n, one in enumerate(self.found) for line in binding(n, one)]
        names = f"{{{', '.join(f'{one.name!r}: {self._given(one)}' for one in self.found)}}}"
        return f"""
def key_of({self._head()}):
{_indent(bound, 4)}
    _rf_d = _rf_device()
    return {self._key()}

def launch({self._head()}):
{_indent(self._in_c(), 4)}
    try:
{_indent(bound, 8)}
        _rf_d = _rf_device()
        _rf_key = {self._key()}
{_indent(self._find(), 8)}
    except _rf_no_key:
        _rf_entry = _rf_key = None
    if _rf_entry is None or {SPECIAL}:
        return _rf_triton(_rf_key, _rf_known, _rf_grid, {self._as_given()})
    if _rf_known is not None:
        _rf_learn(_rf_known, _rf_entry)
    if _rf_grid.__class__ is not _rf_tuple and _rf_callable(_rf_grid):
        _rf_grid = _rf_grid({names})
    _rf_n = _rf_len(_rf_grid)
    _rf_run, _rf_function, _rf_coop, _rf_pdl, _rf_meta, _rf_more, _rf_compiled = _rf_entry
    {self._call()}
    return _rf_compiled
"""

    def _in_c(self) -> list[str]:
        """The launch in C, which gives back the kernel, the key of a launch to learn, or None."""
        if not self.native:
            return ["_rf_known = None"]
        given = ", ".join(["_rf_grid", *self.knobs, *(one.name for one in self.given)])
        return [
            f"_rf_known = None if _rf_options or {SPECIAL} else _rf_native({given})",
            "if _rf_known is not None and _rf_known.__class__ is not _rf_bytes:",
            "    return _rf_known",
        ]

    def _head(self) -> str:
        """Parameters as the kernel has them, less those that are fixed."""
        words, star = [f"{PREFIX}grid", "/"], False
        for one in self.given:
            if one.keyword_only and not star:
                words.append("*")
                star = True
            words.append(f"{one.name}={PREFIX}default_{one.name}" if one.default else one.name)
        return ", ".join([*words, f"**{PREFIX}options"])

    def _key(self) -> str:
        items = [f"{PREFIX}d", *self.knobs]
        for number, one in enumerate(self.found):
            if one.constexpr:
                # 1 == True == 1.0, and they are different constants.
                known = [] if one.name in self.fixed else [f"{one.name}.__class__", one.name]
                items += known
            else:
                items.append(f"{PREFIX}k{number}")
        items.append(f"{PREFIX}freeze({PREFIX}options) if {PREFIX}options else None")
        return f"({', '.join(items)},)"

    def _find(self) -> list[str]:
        """Most launches are like the one before: comparing with it spares the hash.

        One object holds its key and its entry, for another thread may launch in between. Constants
        that come with the launch may be of any class, and compare as they like.
        """
        if any(one.constexpr and one.name not in self.fixed for one in self.found):
            return ["_rf_entry = _rf_find(_rf_key)"]
        return [
            "_rf_was = _rf_last[0]",
            "if _rf_key == _rf_was[0]:",
            "    _rf_entry = _rf_was[1]",
            "elif (_rf_entry := _rf_find(_rf_key)) is not None:",
            "    _rf_last[0] = _rf_key, _rf_entry",
        ]

    def _as_given(self) -> str:
        """Positional arguments up to the first meta-parameter, and keywords after it."""
        positional, named, by_name = [], [], False
        for one in self.found:
            by_name = by_name or one.constexpr or one.keyword_only
            if one.name in self.fixed:
                continue
            if by_name:
                named.append(f"{one.name!r}: {one.name}")
            else:
                positional.append(f"{one.name},")
        return f"({' '.join(positional)}), {{{', '.join(named)}}}, {PREFIX}options"

    def _given(self, one: Parameter) -> str:
        return f"{PREFIX}fixed_{one.name}" if one.name in self.fixed else one.name

    def _call(self) -> str:
        """The launcher's own arguments, then the kernel's."""
        grid = "_rf_grid[0], _rf_grid[1] if _rf_n > 1 else 1, _rf_grid[2] if _rf_n > 2 else 1"
        head = f"{grid}, _rf_stream(_rf_d), _rf_function, _rf_coop, _rf_pdl"
        values = [
            self._given(one) if one.constexpr else f"{PREFIX}p{number}"
            for number, one in enumerate(self.found)
        ]
        own = "".join(f"{value}, " for value in values)
        # No scratch memory, and no hooks: with either, the launch went through Triton.
        if self.form == "flat":
            return f"_rf_run({head}, None, None, _rf_meta, None, None, None, {own})"
        return f"_rf_run({head}, _rf_meta, None, None, None, None, None, *_rf_more, ({own}))"


def _indent(lines: list[str], width: int) -> str:
    return "\n".join(" " * width + line for line in lines or ["pass"])
