"""`compile` and `Circuit`: a plan, its parameters, and the passes over them."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import torch
from torch import Tensor, nn

from rightfast.circuits import backward, evidence, forward, gpu
from rightfast.circuits.autograd import LogLikelihood
from rightfast.circuits.backward import Flows
from rightfast.circuits.compilation import make_plan
from rightfast.circuits.description import fingerprint
from rightfast.circuits.forward import State
from rightfast.circuits.nodes import CircuitNodes
from rightfast.circuits.options import Algorithm, Pass
from rightfast.circuits.plan import Plan
from rightfast.circuits.workspace import Pool

if TYPE_CHECKING:
    from rightfast.circuits.gpu import passes
    from rightfast.circuits.gpu.data import Data
    from rightfast.circuits.gpu.state import State as KernelState

Found: TypeAlias = Union[evidence.Evidence, "Data"]
AnyState: TypeAlias = Union[State, "KernelState"]
DTYPES = (torch.float32, torch.float64)


def compile(
    root: CircuitNodes,
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    graphs: bool | None = False,
    precision: gpu.Precision | None = "ieee",
) -> "Circuit":
    """The circuit below ``root``, ready to compute.

    Nodes that have no parameters yet get random ones, which depend on ``seed`` alone. A product
    or an input as the root becomes the only child of a sum. ``precision``: that of products of
    matrices in Triton kernels, which serve float32 circuits on a GPU; None: torch serves them, too.
    ``graphs``: whether what kernels do is recorded and replayed, as `runtime.Graphs` has it
    (docs/circuits-gpu.md). Raises TypeError or ValueError for a root that is not one node, a dtype
    other than float32 and float64, an unknown precision, or graphs without one.
    """
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {list(DTYPES)}, got {dtype}")
    plan = make_plan(root)
    with torch.inference_mode(False):  # tensors that EM and optimizers can change
        parameters = initial_parameters(plan, seed, dtype).to(device)
        return Circuit(plan, parameters, graphs=graphs, precision=precision)


class Circuit(nn.Module):
    """A compiled probabilistic circuit.

    ``parameters_flat`` holds all parameters, probabilities first; ``flows`` the parameter flows
    that `backward` has added up since `zero_flows`. Both are flat; `place` finds a node's part.
    """

    flows: Tensor

    def __init__(
        self,
        plan: Plan,
        parameters: Tensor,
        *,
        graphs: bool | None = False,
        precision: gpu.Precision | None = "ieee",
    ) -> None:
        super().__init__()
        self.plan = plan
        self.graphs, self.precision = gpu.checked(graphs, precision)
        self.parameters_flat = nn.Parameter(parameters)
        self.register_buffer("flows", parameters.new_zeros(plan.num_statistics), persistent=False)
        self.state: AnyState | None = None
        """What the last pass left, for `backward`."""
        self._pool: Pool | None = None
        self._engine: passes.Engine | None = None

    @property
    def num_variables(self) -> int:
        """Columns of the data."""
        return self.plan.num_variables

    def forward(
        self,
        x: Tensor,
        algorithm: Algorithm = "ll",
        *,
        alpha: float = 1.0,
        temperature: float = 1.0,
        missing_mask: Tensor | None = None,
    ) -> Tensor:
        """Log-likelihoods of ``x`` [batch, variables]: [batch]; -inf for what is impossible.

        ``algorithm``, ``alpha`` and ``temperature`` as `Pass` has them. ``missing_mask``, True
        where a value is missing, marginalises it; for "mpe" it takes the leaf's maximum.
        Differentiable by ``parameters_flat`` where gradients are enabled, but not with a
        temperature, whose flows are no derivatives.

        Raises TypeError or ValueError for data that does not fit: see `evidence.read`.
        """
        options = Pass(algorithm, alpha, temperature)
        found = self.read(x, missing_mask)
        return self.evaluate(found, options, self.parameters_flat)

    def read(self, x: Tensor, missing_mask: Tensor | None) -> Found:
        """Data as a pass wants it; raises as `evidence.read` does, but for the values of data on a
        GPU, of which those that a variable does not have give NaN."""
        if (engine := self.engine()) is not None:
            return engine.read(x, missing_mask)
        return evidence.read(self.plan, x, missing_mask, self.dtype, self.device)

    def engine(self) -> "passes.Engine | None":
        """What computes passes by kernels, where there are some for this circuit and device."""
        if self.precision is None or not gpu.takes(self.device, self.dtype):
            return None
        if self._engine is None or self._engine.device != self.device:
            self._engine = gpu.engine(self.plan, self.device, self.precision, self.graphs)
        return self._engine

    def evaluate(self, found: Found, options: Pass, parameters: Tensor) -> Tensor:
        """Log-likelihoods with other parameters than the circuit's own, flat as these."""
        self.state = None  # its buffers serve this pass
        if torch.is_grad_enabled() and parameters.requires_grad and options.temperature == 1:
            out, self.state = LogLikelihood.call(self, found, options, parameters)
            return out
        self.state = self.run_pass(found, options, parameters.detach())
        return self.state.log_likelihood()

    @torch.no_grad()
    def run_pass(self, found: Found, options: Pass, parameters: Tensor) -> AnyState:
        """A forward pass whose state is the caller's alone."""
        if isinstance(found, evidence.Evidence):
            return self.run(found, options, parameters)
        engine = self.engine()
        assert engine is not None
        return engine.run(found, options, parameters)

    @torch.no_grad()
    def run(
        self, found: evidence.Evidence, options: Pass, parameters: Tensor | None = None
    ) -> State:
        """The same by torch operations."""
        theta = self.parameters_flat.detach() if parameters is None else parameters
        return forward.run(self.plan, theta, found, options, self._workspaces())

    def _workspaces(self) -> Pool:
        pool = self._pool
        if pool is None or (pool.device, pool.dtype) != (self.device, self.dtype):
            if self.dtype not in DTYPES:
                raise TypeError(
                    f"a circuit computes in one of {list(DTYPES)}, got parameters of {self.dtype}: "
                    "call circuit.float()"
                )
            pool = self._pool = Pool(self.plan, self.dtype, self.device)
        return pool

    @torch.no_grad()
    def backward(self, weights: Tensor | None = None, *, log_space: bool = False) -> Flows:
        """Flows of the last pass, added to `flows`.

        ``weights`` [batch], not negative, are the samples' weights; by default 1. With
        ``log_space`` the flows of the rows are logs. Raises RuntimeError without a forward pass
        before, or after a change of the parameters, their dtype or device; ValueError for weights
        that do not fit.
        """
        if self.state is None:
            raise RuntimeError("backward needs a forward pass: call the circuit with data first")
        state = self.state
        before, now = state.parameters, self.parameters_flat
        if (before.device, before.dtype) != (now.device, now.dtype):
            raise RuntimeError(
                f"the forward pass was in {before.dtype} on {before.device}, the circuit is now "
                f"in {self.dtype} on {self.device}: run the forward pass again"
            )
        options = replace(state.options, log_space=True) if log_space else state.options
        root_flow = self._weights(weights, state.batch)
        return backward.run(state, root_flow, options, statistics=self.flows)

    def _weights(self, weights: Tensor | None, batch: int) -> Tensor:
        if weights is None:
            return torch.ones(batch, dtype=self.dtype, device=self.device)
        found = torch.as_tensor(weights).detach().to(device=self.device, dtype=self.dtype)
        if found.shape != (batch,):
            raise ValueError(f"weights must have the shape [{batch}], got {list(found.shape)}")
        if not bool(((found >= 0) & found.isfinite()).all()):
            raise ValueError("weights must be finite and not negative")
        if not float(found.sum()) * self.num_variables < torch.finfo(self.dtype).max:
            raise ValueError(f"flows of such weights overflow {self.dtype}: scale the weights down")
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without what a pass has left: copies and pickles start afresh."""
        return {**self.__dict__, "state": None, "_pool": None, "_engine": None}

    def get_extra_state(self) -> Tensor:
        """For `state_dict`: parameters of one structure mean nothing to another."""
        return fingerprint(self.plan.order)

    def set_extra_state(self, state: Tensor) -> None:
        """Raises ValueError for the state of a circuit with another structure."""
        if not torch.equal(torch.as_tensor(state).cpu(), self.get_extra_state()):
            raise ValueError(
                "the parameters are those of a circuit with another structure: build the same one, "
                "or use circuits.save and circuits.load, which keep the structure"
            )

    def zero_flows(self) -> None:
        """Forgets the parameter flows."""
        self.flows.zero_()

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters and of all that is computed."""
        return self.parameters_flat.dtype

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.parameters_flat.device

    def place(self, node: CircuitNodes) -> slice:
        """Where the parameters of inputs or sums are in ``parameters_flat``."""
        source = getattr(node, "source", None)
        for place in self.plan.placements:
            if place.owner is source:
                return slice(place.offset, place.offset + place.size)
        raise ValueError(f"{node!r} is not in this circuit, or has no parameters")

    def rows(self, node: CircuitNodes) -> Tensor:
        """The rows of inputs or sums in `Flows.rows` and in ``state.n``."""
        found = self.plan.rows_of.get(id(node))
        if found is None:
            raise ValueError(f"{node!r} is not in this circuit, or is a product, which has no rows")
        return torch.from_numpy(found)

    def extra_repr(self) -> str:
        return (
            f"{self.plan.num_variables} variables, {self.plan.num_parameters} parameters, "
            f"{len(self.plan.layers)} layers"
        )


def initial_parameters(plan: Plan, seed: int, dtype: torch.dtype) -> Tensor:
    """Given or random parameters, flat, on the CPU; made in float64, then rounded once."""
    generator = torch.Generator().manual_seed(seed)
    flat = torch.empty(plan.num_parameters, dtype=dtype)
    for place in plan.placements:
        owner, size = place.owner, place.size
        values = owner.parameters
        if values is None:
            values = owner.initial(generator)
        flat[place.offset : place.offset + size] = values.reshape(-1)
    return flat
