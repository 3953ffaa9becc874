"""Passes by kernels: an `Engine` for a circuit on a device, a `Workspace` for a pass at a time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from rightfast.circuits import evidence
from rightfast.circuits.gpu import backward_pass, backward_steps, max_steps, other_inputs, steps
from rightfast.circuits.gpu.data import Data
from rightfast.circuits.gpu.descent import Descent, Walk
from rightfast.circuits.gpu.state import State, written
from rightfast.circuits.gpu.steps import Memory, Settings
from rightfast.circuits.gpu.tables import Tables
from rightfast.circuits.options import Pass
from rightfast.circuits.plan import Plan
from rightfast.runtime import Backend, Buffers, Graphs

SPARE = 2  # workspaces kept for the next passes
SIZES = 32  # batch sizes whose launches a workspace keeps


@dataclass(frozen=True)
class Update:
    """Options of an M-step."""

    step_size: float
    pseudocount: float
    keep_zero_params: bool


class Engine:
    """A plan's passes on one device.

    ``record`` as `Graphs` has it; ``backend`` for tests on the CPU.
    """

    def __init__(
        self,
        plan: Plan,
        tables: Tables,
        device: torch.device,
        precision: str,
        record: bool | None,
        backend: Backend | None = None,
    ) -> None:
        self.plan, self.tables, self.device, self.precision = plan, tables, device, precision
        with torch.inference_mode(False):
            self.ints = torch.from_numpy(tables.ints).to(device)
        self.record, self.backend = record, backend
        self._free: list[Workspace] = []
        self._descent: Descent | None = None
        self._updates: dict[bool, list[steps.Step]] = {}
        self._update_graphs = Graphs(self._update, record=record, backend=backend)

    def descent(self) -> Descent:
        """What goes from the root down, made when it is asked for first."""
        if self._descent is None:
            self._descent = Descent(self.plan, self.tables, self.device)
        return self._descent

    def sample(self, batch: int, parameters: Tensor, generator: torch.Generator) -> Tensor:
        """Samples [batch, variables] without evidence, for which no forward pass is needed."""
        workspace = self.take()
        walk = Walk(batch, given=False, masked=False, draw=True)
        out = workspace.walk(walk, self.descent(), parameters, None, generator)
        self.give_back(workspace)
        return out

    def take(self) -> "Workspace":
        """A workspace that no other pass has."""
        return self._free.pop() if self._free else Workspace(self)

    def give_back(self, workspace: "Workspace") -> None:
        """For the next pass."""
        if len(self._free) < SPARE:
            self._free.append(workspace)

    def run(self, data: Data, options: Pass, parameters: Tensor) -> State:
        """A forward pass; its state is the caller's alone."""
        workspace = self.take()
        maximum = options.algorithm == "mpe"
        settings = Settings(self.precision, options.alpha, data.missing is not None, maximum)
        given = {"x": data.x, "missing": data.missing}
        bound = {"theta": parameters, "tables": self.ints}
        if data.batch:
            for one in self.tables.others:
                memory = workspace.memory(data.batch, False)
                other_inputs.write(one, data, parameters, memory, maximum)
            root = workspace.forward(settings, fed=given, bound=bound)
        else:
            root = parameters.new_zeros(0)
        version = parameters._version
        return State(self, data, options, settings, parameters, version, workspace, root)

    def read(self, x: Tensor, missing_mask: Tensor | None) -> Data:
        """Data and mask [batch, variables], without a look at values."""
        missing = evidence.check(self.plan, x, missing_mask, self.device)
        if x.dtype == torch.bool:
            x = x.view(torch.uint8)
        return Data(x.contiguous(), None if missing is None else missing.contiguous())

    def em(
        self, parameters: Tensor, flows: Tensor, step_size: float, pseudocount: float, keep: bool
    ) -> None:
        """The M-step of sums and categorical inputs, in place."""
        update = Update(float(step_size), float(pseudocount), keep)
        bound = {"theta": parameters, "flows": flows, "tables": self.ints}
        self._update_graphs(update, bound=bound)
        written(parameters)

    def _update(self, update: Update, theta: Tensor, flows: Tensor, tables: Tensor) -> None:
        found = self._updates.get(update.keep_zero_params)
        if found is None:
            found = self._updates[update.keep_zero_params] = backward_steps.em(
                self.plan, self.tables, tables, update.keep_zero_params
            )
        numbers = (update.step_size, update.pseudocount)
        for launch, grid, rest in found:
            launch(grid, theta, flows, *rest, *numbers)


class Workspace:
    """Buffers for one pass at a time, the launches for each batch size, and what was recorded."""

    def __init__(self, engine: Engine) -> None:
        self.plan, self.tables, self.ints = engine.plan, engine.tables, engine.ints
        self.buffers = Buffers(zeroed=False)
        self.buffers.attach(self)
        # What only goes into products of matrices is kept as these take it.
        self.factor = torch.bfloat16 if engine.precision == "bf16" else torch.float32
        self._known: dict[Any, Any] = {}
        self.descent: Descent | None = None
        record, backend = engine.record, engine.backend
        self.forward, self.backward, self.descend = (
            Graphs(run, record=record, buffers=self.buffers, backend=backend)
            for run in (self._forward, self._backward, self._descend)
        )

    def __len__(self) -> int:
        """No recordings of its own: `Graphs` has them."""
        return 0

    def clear(self) -> None:
        """Forgets the launches, which have addresses of the buffers."""
        self._known.clear()

    def memory(
        self, batch: int, keep: bool, maximum: bool = False, log_space: bool = False
    ) -> Memory:
        """The buffers, cut to a batch size; ``keep``: for a backward pass too."""

        def cut(name: str, rows: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return self._cut(name, rows, batch, dtype)

        n = cut("n", self.tables.rows)
        sums = cut("sums", self.tables.sums)
        shift = cut("shift", self.tables.groups)
        scaled = cut("scaled", max(1, self.tables.elements), self.factor)
        flows = cut("flows", self.tables.rows) if keep else None
        quotients = cut("quotients", len(sums), self.factor) if keep else None
        kept = cut("kept", max(1, self.tables.kept)) if keep else None
        chosen = cut("chosen", len(sums), torch.int32) if maximum else None
        logs = cut("logs", self.tables.rows) if log_space else None
        below = (flows, quotients, kept, chosen, logs)
        return Memory(batch, n, n, sums, scaled, shift, self.ints, *below)

    def tempered(self, memory: Memory) -> Memory:
        """The same with memory of their own for sums of a temperature."""
        return replace(
            memory,
            values=self._cut("tempered", self.tables.rows, memory.batch),
            sums=self._cut("tempered sums", self.tables.sums, memory.batch),
            scaled=self._cut(
                "tempered elements", max(1, self.tables.elements), memory.batch, self.factor
            ),
        )

    def _cut(self, name: str, rows: int, batch: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return self.buffers.get(name, (rows, batch), dtype, self.ints.device)

    def rows(self, batch: int, name: str) -> Tensor:
        """The plan's rows of "n", "flows" or "logs", as they are."""

        def make() -> Tensor:
            memory = self.memory(batch, name == "flows", log_space=name == "logs")
            found: Tensor = getattr(memory, name)
            return found[: self.plan.num_rows]

        view: Tensor = self._once((name, batch), make)
        return view

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= 4 * SIZES:
                self._known.clear()
            found = self._known[key] = make()
        return found

    def _forward(
        self, settings: Settings, x: Tensor, missing: Tensor | None, theta: Tensor, tables: Tensor
    ) -> Tensor:
        memory = self.memory(len(x), False, settings.maximum)

        def make() -> Any:
            if settings.maximum:
                inputs = max_steps.inputs(self.plan, self.tables, memory, settings)
                return inputs, max_steps.sums(self.plan, self.tables, memory)
            inputs = steps.inputs(self.plan, self.tables, memory, settings)
            return inputs, steps.sums(self.tables, memory, settings)

        inputs, sums = self._once((settings, len(x)), make)
        for launch, grid, rest in inputs:
            launch(grid, theta, x, missing, *rest)
        for launch, grid, rest in sums:
            launch(grid, theta, *rest)
        return memory.n[self.plan.root_row]

    def _backward(
        self,
        options: backward_pass.Options,
        x: Tensor,
        missing: Tensor | None,
        weights: Tensor,
        theta: Tensor,
        out: Tensor | None,
        tables: Tensor,
    ) -> Tensor | None:
        memory = self.memory(len(x), True, options.settings.maximum, options.log_space)
        tempered = None if options.temperature == 1 else self.tempered(memory)

        def make() -> backward_pass.Launches:
            return backward_pass.launches(self.plan, self.tables, memory, tempered, options)

        found = self._once((options, len(x)), make)
        launch, grid, rest = found.root
        launch(grid, memory.n, weights, *rest)
        for launch, grid, rest in found.rows:
            launch(grid, theta, *rest)
        if options.derivative:
            out = torch.empty_like(theta)
        if out is not None:
            for launch, grid, rest in found.parameters:
                launch(grid, theta, out, *rest)
            for launch, grid, rest in found.inputs:
                launch(grid, theta, out, x, missing, *rest)
        return out if options.derivative else None

    def walk(
        self, walk: Walk, descent: Descent, theta: Tensor, data: Data | None,
        generator: torch.Generator | None,
    ) -> Tensor:  # fmt: skip
        """From the root down: values [batch, variables]; without a generator of the maxima."""
        self.descent, missing = descent, None if data is None else data.missing
        seed = torch.zeros(1, dtype=torch.int64, device=self.ints.device)
        if generator is not None:
            seed.copy_(_seed(generator))
        out: Tensor = self.descend(
            walk,
            fed={"x": None if data is None else data.x, "missing": missing, "seed": seed},
            bound={
                "theta": theta,
                "tables": self.ints,
                "places": descent.places,
                "present": descent.present,
            },
        )
        given = (missing, seed, generator, out, self.ints)
        for one in self.tables.others:
            descent.other(one, walk, theta, self._selected(descent, walk), *given)
        return out

    def _selected(self, descent: Descent, walk: Walk) -> Tensor:
        shape = (descent.slots, walk.batch)
        return self.buffers.get("selected", shape, torch.int32, self.ints.device)

    def _descend(
        self, walk: Walk, x: Tensor | None, missing: Tensor | None, seed: Tensor, theta: Tensor,
        tables: Tensor, places: Tensor, present: Tensor,
    ) -> Tensor:  # fmt: skip
        descent = self.descent
        assert descent is not None
        n = self.memory(walk.batch, False).n if walk.given else None
        selected = self._selected(descent, walk)
        sums, inputs = self._once(walk, lambda: (descent.sums(walk), descent.inputs(walk)))
        out = descent.start(walk, n, selected, x, missing, present)
        for launch, grid, rest in sums:
            launch(grid, theta, n, selected, seed, tables, places, *rest)
        for launch, grid, rest in inputs:
            launch(grid, theta, selected, missing, seed, out, tables, *rest)
        return out


def _seed(generator: torch.Generator) -> Tensor:
    """The next number of a generator, on its device."""
    return torch.randint(2**63 - 1, (1,), generator=generator, device=generator.device)
