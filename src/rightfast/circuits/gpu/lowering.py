"""`tables_of`: from a plan to the tables of the kernels."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from rightfast.circuits.gpu.dense import Dense, dense
from rightfast.circuits.gpu.shared_products import Products, split
from rightfast.circuits.gpu.tables import (
    Groups,
    Inputs,
    Layout,
    Others,
    Owners,
    Parts,
    Rows,
    Sums,
    Tables,
)
from rightfast.circuits.leaves import Categorical
from rightfast.circuits.plan import ONE, ZERO, InputFamily, Parameters, Plan

STATIC_FACTORS = 4  # more of them, or another number for each group, are counted at run time
LARGEST = 2**31 - 1
ONE_TILE = 64  # sums that one tile has
LEAST_CHILDREN, ENOUGH = 1024, 64  # of a part of a sum; programs
Ints = NDArray[np.int64]


def tables_of(plan: Plan) -> Tables | None:
    """None for a plan that is too large for the kernels' integers."""
    if max(plan.num_parameters, 2 * plan.num_rows) > LARGEST:
        return None
    layers = [[one for family in layer for one in dense(family)] for layer in plan.layers]
    return _Maker(plan, layers).tables()


def _power(n: int) -> int:
    """The largest power of two that divides n."""
    return n & -n


def _block(factors: Ints) -> int:
    """The largest power of two W for which all blocks of W elements have rows in a stretch, or one
    row."""
    children = factors.shape[-1]
    width = _power(children)
    while width > 1:
        steps = np.diff(factors.reshape(-1, width), axis=1)
        if ((steps == 1).all(1) | (steps == 0).all(1)).all():
            return width
        width //= 2
    return 1


def _encoded(factors: Ints, width: int) -> Ints:
    """Blocks as the kernels read them."""
    firsts = factors[:, :, ::width]
    follows = factors[:, :, 1::width] > firsts if width > 1 else 0
    return 2 * firsts + follows


def _counted(own: Ints, static: int) -> tuple[Ints, int]:
    """The blocks of one group, [factors, C / W], and how many factors there are."""
    count = static or 1 + int(np.flatnonzero(own.any(1)).max(initial=0))
    blocks = np.zeros((count, own.shape[1]), dtype=np.int64)
    blocks[: len(own)] = own[:count]
    return blocks, count


def _parts(nodes: int, children: int, groups: int) -> int:
    """In how many parts a sum over so many children comes, so that there is work for all."""
    parts = 1
    while children % (2 * parts) == 0 and children // parts >= 2 * LEAST_CHILDREN:
        if parts * groups * -(-nodes // 64) >= ENOUGH:
            break
        parts *= 2
    return parts


def _align(offsets: Ints) -> int:
    common = int(np.gcd.reduce(offsets)) or 16
    return min(16, common & -common)


class _Maker:
    def __init__(self, plan: Plan, layers: list[list[Dense]]) -> None:
        self.plan, self.layers = plan, layers
        self.families = [family for layer in layers for family in layer]
        self.parts: list[Ints] = []
        self.size = 0
        self.users: dict[Layout, dict[int, list[int]]] = {}
        self.inside: list[Ints] = []  # rows that are factors of shared products

    def put(self, values: Sequence[int] | Ints) -> int:
        """Where they are from now on."""
        at, found = self.size, np.asarray(values, dtype=np.int64).reshape(-1)
        self.parts.append(found)
        self.size += len(found)
        return at

    def tables(self) -> Tables | None:
        plan, found = self.plan, Tables(np.zeros(0, np.int32))
        bounds = self._take_out(found)
        found.sums = plan.num_rows - plan.num_input_rows
        used = self._used(found.rows)
        every = (family.factors for family in self.families)
        alone = [bool((used[f[f != ONE]] == 1).all()) for f in every]
        layouts = self._layouts()
        number = 0
        for layer in self.layers:
            families = []
            for family in layer:
                families.append(self._sums(found, family, layouts[number], alone[number]))
                number += 1
            found.layers.append(families)
        for inputs in plan.inputs:
            if isinstance(inputs.dist, Categorical):
                made = self._inputs(inputs, inputs.parameters, inputs.statistics)
                found.inputs.append(made)
            else:
                found.others.append(self._others(inputs))
        self._shared(found, alone, bounds)
        for place, simplex in enumerate(plan.simplices):
            if simplex.segments is not None:
                bounds_of = np.searchsorted(simplex.segments, np.arange(simplex.rows + 1))
                found.bounds[place] = self.put(bounds_of)
        for layout, users in self.users.items():
            places = [(self.put(records), len(records)) for records in users.values()]
            at = self.put(np.array([(start, start + count) for start, count in places]))
            mean = sum(map(len, users.values())) // len(users)
            found.owners.append(Owners(layout, at, len(users), mean))
        if self.size > LARGEST:
            return None
        found.ints = np.concatenate(self.parts).astype(np.int32)
        return found

    def _used(self, rows: int) -> Ints:
        """How often each row is a factor."""
        used = np.zeros(rows, dtype=np.int64)
        for family in self.families:
            used += np.bincount(family.factors.reshape(-1), minlength=rows)
        return used

    def _take_out(self, found: Tables) -> list[int]:
        """Takes out shared products; where those of each layer begin and end."""
        plan = self.plan
        used, start, bounds = self._used(plan.num_rows), plan.num_rows, [plan.num_rows]
        for layer in self.layers:
            groups = []
            for family in layer:
                if len(family.factors) > STATIC_FACTORS:
                    family.factors, products = split(family.factors, used, start)
                    groups += [self._products(one) for one in products]
                    start += sum(one.rows for one in products)
            found.products.append(groups)
            bounds.append(start)
        found.rows = start
        return bounds

    def _products(self, products: Products) -> Groups:
        factors = products.factors
        self.inside.append(factors.reshape(-1))
        width, (count, groups, size) = _block(factors), factors.shape
        blocks = _encoded(factors, width)
        records = [
            [products.start + g * size, 0, 0, self.put(blocks[:, g]), count, 0, 0, 0]
            for g in range(groups)
        ]
        return Groups(self.put(np.array(records)), groups, size, width)

    def _layouts(self) -> list[Layout]:
        """Of all families; those with equally many sums and children share one kernel."""
        alike: dict[tuple[int, int], list[int]] = {}
        for number, family in enumerate(self.families):
            alike.setdefault((family.nodes, family.factors.shape[2]), []).append(number)
        layouts: dict[int, Layout] = {}
        for (nodes, children), numbers in alike.items():
            families = [self.families[i] for i in numbers]
            most = max(len(family.factors) for family in families)
            parts = _parts(nodes, children, min(len(family.rows) for family in families))
            layout = Layout(
                nodes,
                children // parts,
                children,
                min(_power(children // parts), *(_block(family.factors) for family in families)),
                most if most <= STATIC_FACTORS else 0,
                min(_align(family.offsets) for family in families),
                nodes > ONE_TILE,
            )
            layouts.update(dict.fromkeys(numbers, layout))
        return [layouts[i] for i in range(len(layouts))]

    def _sums(self, found: Tables, family: Dense, layout: Layout, alone: bool) -> Sums:
        nodes, (count, groups, children) = family.nodes, family.factors.shape
        parts = children // layout.children
        firsts = _encoded(family.factors, layout.block).reshape(count, groups, parts, -1)
        records, together = [], []
        for g, row in enumerate(family.rows.tolist()):
            place = row - self.plan.num_input_rows
            if parts > 1:
                together.append([row, found.rows, found.sums, found.groups])
                row, place = found.rows, found.sums
                found.rows += parts * nodes
                found.sums += parts * nodes
            for p in range(parts):
                blocks, count = _counted(firsts[:, g, p], layout.factors)
                offset = int(family.offsets[g]) + p * layout.children
                records.append(
                    [row + p * nodes, place + p * nodes, found.groups, self.put(blocks), count]
                    + [offset, 0 if alone else found.kept, found.elements if layout.kept else 0]
                )
                found.groups += 1
                found.elements += layout.children if layout.kept else 0
                found.kept += 0 if alone else layout.children
        at = self.put(np.array(records))
        users = self.users.setdefault(layout, {})
        for g, record in enumerate(records):
            users.setdefault(record[5], []).append(at + g * len(record))
        combined = Parts(self.put(np.array(together)), groups, parts) if together else None
        return Sums(layout, len(records), at, alone, combined)

    def _inputs(self, family: InputFamily, where: Parameters, statistics: Parameters) -> Inputs:
        """As the kernels of tables of probabilities have them: with tables and counts there."""
        groups = np.arange(family.groups)
        records = np.stack(
            [
                family.start + groups * family.nodes,
                family.variables,
                where.offset + groups * where.stride,
                statistics.offset + groups * statistics.stride,
            ],
            1,
        )
        at = self.put(records)
        users = self.put(at + groups * records.shape[1])
        if where.stride:
            owners = np.stack([users + groups, users + groups + 1], 1)
        else:
            owners = np.array([[users, users + family.groups]])
        categories = family.dist.num_categories
        assert categories is not None
        place = self.put(owners)
        return Inputs(family.nodes, categories, family.groups, at, place, len(owners))

    def _others(self, family: InputFamily) -> Others:
        table, categories = None, family.dist.num_categories
        if categories is not None:
            stride = family.nodes * categories if family.parameters.stride else 0
            alone = Parameters(0, stride)
            table = self._inputs(family, alone, alone)
        return Others(family, self.put(family.variables), table)

    def _shared(self, found: Tables, alone: list[bool], products: list[int]) -> None:
        """Lists of the rows that no element hands its flow to."""
        plan = self.plan
        count = products[-1]
        lists = np.ones(count, dtype=bool)
        lists[[ONE, ZERO, plan.root_row]] = False
        for number in self.inside:
            lists[number] = False
        rows, elements, first = [], [], 0
        for family, is_alone in zip(self.families, alone):
            flat = family.factors.reshape(len(family.factors), -1)
            if is_alone:
                lists[flat.reshape(-1)] = False
                continue
            for slot in flat:
                has = np.flatnonzero(slot != ONE)
                rows.append(slot[has])
                elements.append(first + has)
            first += flat.shape[1]
        every = np.concatenate(rows) if rows else np.zeros(0, np.int64)
        order = np.argsort(every, kind="stable")
        at = self.put(np.concatenate(elements)[order] if rows else every)
        bounds = at + np.searchsorted(every[order], np.arange(count + 1))

        def between(start: int, stop: int) -> Rows:
            wanted = np.flatnonzero(lists[start:stop]) + start
            entries = np.stack([wanted, bounds[wanted], bounds[wanted + 1]], 1)
            return Rows(self.put(entries), len(wanted))

        ends = [0, plan.num_input_rows, *(layer[-1] for layer in self._ends())]
        found.shared = [between(*pair) for pair in pairwise(ends)]
        found.shared_products = [between(*pair) for pair in pairwise(products)]

    def _ends(self) -> list[list[int]]:
        return [[f.start + f.groups * f.nodes for f in layer] for layer in self.plan.layers]
