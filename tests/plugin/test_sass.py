"""Reading machine code is pure: texts in, counts out."""

from __future__ import annotations

import pytest

from pytest_rightfast import sass

TEXT = """
	.type		.nv.reservedSmem.offset0,@object
.text.k:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR4][R12.64] ;
        /*0020*/                   LDG.E R4, desc[UR4][R12.64] ;
        /*0030*/                   LDG.E.U16.CONSTANT R4, desc[UR4][R12.64] ;
        /*0040*/              @!PT LDGSTS.E.BYPASS.LTC128B.64 [R1], desc[UR4][R2.64] ;
        /*0050*/                   LDSM.16.M88.4 R4, [R1] ;
        /*0060*/                   HGMMA.64x128x16.F32 R24, gdesc[UR4], R24, !UPT ;
        /*0070*/                   HMMA.16816.F32 R4, R4, R8, R4 ;
        /*0080*/              @UP0 UIADD3 UR4, UR4, 0x1, URZ ;
        /*0090*/                   NOP ;
        /*00a0*/                   STL.64 [R1+0x8], R2 ;
        /*00b0*/                   LDL R2, [R1+0x8] ;
        /*00c0*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*00d0*/                   FFMA R4, R4, R5, R6 ;
        /*00e0*/                   EXIT ;
.L_x_0:
        /*00f0*/                   BRA `(.L_x_0);
        /*0100*/                   NOP;
        /*0110*/                   NOP;
"""


def test_instructions_by_class_and_width():
    counts = sass.count(TEXT)
    found = {name: number for name, number in counts.items() if number}
    assert found == {
        "instructions": 16,
        "global_loads_128": 1,
        "global_loads_32": 1,
        "global_loads_16": 1,
        "async_copies_64": 1,
        "shared_matrices": 1,
        "matrix": 2,
        "matrix_HGMMA": 1,
        "matrix_HMMA": 1,
        "local_stores_64": 1,
        "local_loads_32": 1,
        "barriers": 1,
        "fma": 1,
        "branches": 1,
    }
    assert counts["global_stores_128"] == 0  # absent is 0, so that a class that appears compares


def test_padding_is_left_out_and_a_nop_inside_counts():
    assert len([code for _, code in sass.instructions(TEXT) if code == "NOP"]) == 1
    twice = TEXT + TEXT  # a second function begins at address 0
    assert sass.count(twice)["instructions"] == 32


@pytest.mark.parametrize(
    ("opcode", "bits"),
    [
        ("LDG.E.128", 128),
        ("LDG.E.64.CONSTANT", 64),
        ("LDG.E", 32),
        ("STG.E.U16", 16),
        ("LDS.S8", 8),
        ("LDGSTS.E.BYPASS.LTC128B.128", 128),
        ("LDGSTS.E.BYPASS.LTC128B", 32),
    ],
)
def test_width(opcode, bits):
    assert sass.width(opcode) == bits


def test_resources_of_the_named_kernel():
    text = (
        "Resource usage:\n Common:\n  GLOBAL:0\n Function other:\n  REG:9 STACK:0 SHARED:0\n"
        " Function k:\n  REG:18 STACK:40 SHARED:16 LOCAL:8 CONSTANT[0]:568 TEXTURE:0\n"
    )
    assert sass.resources(text, "k") == {
        "registers": 18,
        "stack_bytes": 40,
        "local_bytes": 8,
        "static_shared_bytes": 16,
    }
    with pytest.raises(ValueError, match="no resource usage of 'kk'"):
        sass.resources(text, "kk")
