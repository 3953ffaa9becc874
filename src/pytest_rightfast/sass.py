"""Count what is in a compiled GPU kernel: reads the text of `nvdisasm` and `cuobjdump`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Memory instructions are counted by width in bits; the opcodes of each class, as nvdisasm has them.
MEMORY = {
    "global_loads": ("LDG", "LD"),
    "global_stores": ("STG", "ST"),
    "shared_loads": ("LDS",),
    "shared_stores": ("STS",),
    "local_loads": ("LDL",),
    "local_stores": ("STL",),
    "async_copies": ("LDGSTS",),
}
WIDTHS = (128, 64, 32, 16, 8)
OTHER = {
    "matrix": ("HMMA", "IMMA", "DMMA", "QMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA"),
    "bulk_copies": ("UBLKCP", "UTMALDG", "UTMASTG", "UTMAREDG"),
    "shared_matrices": ("LDSM", "STSM"),
    "atomics": ("ATOM", "ATOMG", "ATOMS", "RED", "REDG"),
    "fma": ("FFMA", "HFMA2", "DFMA"),
    "float": ("FADD", "FMUL", "HADD2", "HMUL2", "DADD", "DMUL", "FMNMX", "FSETP", "FSEL"),
    "special": ("MUFU",),
    "integer_multiplies": ("IMAD", "UIMAD", "IMUL"),
    "conversions": ("F2F", "F2I", "I2F", "I2I", "F2FP", "I2FP"),
    "shuffles": ("SHFL", "REDUX"),
    "barriers": ("BAR", "WARPSYNC", "SYNCS"),
    "waits": ("DEPBAR", "LDGDEPBAR", "WARPGROUP"),
    "branches": ("BRA", "BRX", "JMP", "CALL", "RET", "BSSY", "BSYNC"),
}
_CLASS = {
    code: name for table in (MEMORY, OTHER) for name, codes in table.items() for code in codes
}
# Matrix instructions by name, too: HMMA in the place of HGMMA is slower at an equal count.
_NAMED = frozenset(OTHER["matrix"])

_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:\{\s*)?(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")
_WIDTH = re.compile(r"\.(128|64|[US]?16|[US]8)(?![0-9A-Z])")


def instructions(text: str) -> Iterator[tuple[int, str]]:
    """Address and opcode with modifiers, without the padding behind a function's end."""
    padding: list[tuple[int, str]] = []
    for line in text.splitlines():
        if found := _LINE.search(line):
            one = int(found[1], 16), found[2].rstrip(".")
            if one[1] == "NOP":
                padding.append(one)
                continue
            if one[0]:  # address 0 begins the next function: the NOPs before it were padding
                yield from padding
            padding.clear()
            yield one


def count(text: str) -> dict[str, int]:
    """Static instruction counts by class; classes that do not occur count 0, so that they compare.

    A load that loses its vector width shows as fewer `global_loads_128`, more `global_loads_32` and
    more instructions.
    """
    counts = {"instructions": 0}
    counts |= {f"{name}_{width}": 0 for name in MEMORY for width in (128, 64, 32)}
    counts |= dict.fromkeys(OTHER, 0)
    for _, opcode in instructions(text):
        counts["instructions"] += 1
        base = opcode.split(".")[0]
        name = _CLASS.get(base)
        if name is None:
            continue
        if name in MEMORY:
            name = f"{name}_{width(opcode)}"
        elif base in _NAMED:
            counts[f"matrix_{base}"] = counts.get(f"matrix_{base}", 0) + 1
        counts[name] = counts.get(name, 0) + 1
    return counts


def width(opcode: str) -> int:
    """Bits that a memory instruction moves per thread: `LDG.E.128` 128, `LDG.E.U16` 16."""
    found = _WIDTH.findall(opcode)
    return int(found[-1].lstrip("US")) if found else 32


def resources(text: str, kernel: str) -> dict[str, int]:
    """Registers per thread, stack and local memory in bytes, from `cuobjdump -res-usage`.

    Raises:
        ValueError: the text does not mention the kernel.
    """
    found = re.search(rf"Function {re.escape(kernel)}:\s*\n(.*)", text)
    values = dict(re.findall(r"(\w+):(\d+)", found[1])) if found else {}
    if "REG" not in values:
        raise ValueError(f"no resource usage of {kernel!r} in {text[:200]!r}")
    return {
        "registers": int(values["REG"]),
        "stack_bytes": int(values.get("STACK", 0)),
        "local_bytes": int(values.get("LOCAL", 0)),
        "static_shared_bytes": int(values.get("SHARED", 0)),
    }
