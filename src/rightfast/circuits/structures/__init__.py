"""Circuits with a known shape, one a file; each returns a root for `compile`."""

from rightfast.circuits.structures.chow_liu import chow_liu_tree
from rightfast.circuits.structures.hidden_chow_liu import hclt
from rightfast.circuits.structures.hidden_markov import hmm
from rightfast.circuits.structures.poon_domingos import pd
from rightfast.circuits.structures.random_partitions import rat_spn

__all__ = ["chow_liu_tree", "hclt", "hmm", "pd", "rat_spn"]
