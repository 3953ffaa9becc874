"""What a plan comes to on a GPU: that shared products are taken out, and whose tables there are."""

import numpy as np
import pytest

from rightfast.circuits import Categorical, Gaussian, hmm, pd, rat_spn
from rightfast.circuits.compilation import make_plan
from rightfast.circuits.gpu.lowering import tables_of

from .common import STRUCTURES

BINARY = Categorical(2)


def test_products_that_many_elements_share_become_rows():
    plan = make_plan(rat_spn(40, 8, BINARY, depth=2, num_repetitions=2))
    tables = tables_of(plan)
    rows = [sum(one.count * one.size for one in groups) for groups in tables.products]
    assert rows == [64, 0]  # 2 repetitions with 4 leaf regions of 8 products
    assert all(s.layout.factors == 2 for layer in tables.layers for s in layer)
    assert tables.rows == plan.num_rows + 64


def test_products_of_one_element_each_stay():
    plan = make_plan(pd((4, 4), 4, BINARY, split_intervals=4))
    tables = tables_of(plan)
    assert not any(tables.products)
    assert tables.rows == plan.num_rows


def test_inputs_that_are_not_categorical_have_tables_where_they_have_categories():
    tables = tables_of(make_plan(hmm(3, 2, Gaussian())))
    assert [one.table for one in tables.others] == [None]
    tables = tables_of(make_plan(STRUCTURES["mixed-leaves"]()[0]))
    assert [(one.table.nodes, one.table.categories) for one in tables.others] == [(2, 2)]
    assert sorted(one.categories for one in tables.inputs) == [2, 4]


@pytest.mark.parametrize("name", ["hmm", "pd", "rat", "shared", "scrambled", "ragged"])
def test_all_integers_fit(name):
    tables = tables_of(make_plan(STRUCTURES[name]()[0]))
    assert tables.ints.dtype == np.int32
    assert tables.ints.min() >= 0
