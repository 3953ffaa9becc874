"""Circuits with a known shape, one a file; each returns a root for `compile`."""

from rightfast.circuits.structures.chow_liu import chow_liu_tree
from rightfast.circuits.structures.hclt import hclt
from rightfast.circuits.structures.hmm import hmm
from rightfast.circuits.structures.pd import pd
from rightfast.circuits.structures.rat_spn import rat_spn

__all__ = ["chow_liu_tree", "hclt", "hmm", "pd", "rat_spn"]
