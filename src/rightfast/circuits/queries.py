"""Questions to a circuit: marginals, conditionals, the most likely completion, samples."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rightfast.circuits import backward, evidence, topdown
from rightfast.circuits.circuit import AnyState, Circuit
from rightfast.circuits.forward import State, input_parameters
from rightfast.circuits.options import Pass


@torch.no_grad()
def marginal(circuit: Circuit, x: Tensor, missing_mask: Tensor) -> Tensor:
    """log p(the values that are not missing): [batch].

    ``x`` [batch, variables]; ``missing_mask`` of its shape, or [variables], True: summed out.
    """
    return _passed(circuit, x, missing_mask, Pass(keep=False)).log_likelihood()


@torch.no_grad()
def conditional(
    circuit: Circuit, x: Tensor, missing_mask: Tensor, variables: Sequence[int] | None = None
) -> Tensor:
    """p(v = k | the values that are not missing): [batch, len(variables), categories].

    For every variable (by default all) that is missing; one that is not missing has its value
    for certain. Variables with fewer categories than the largest have 0 at the end. Impossible
    evidence gives NaN, since nothing follows from it. One backward pass serves all variables:
    the probability is the flow of the leaves times theirs.

    Raises TypeError for a continuous variable, ValueError for one that the circuit does not have.
    """
    wanted = list(range(circuit.num_variables)) if variables is None else list(variables)
    present = {v for family in circuit.plan.inputs for v in family.variables.tolist()}
    for v in wanted:
        if v not in present:
            raise ValueError(
                f"variables must be among those of the circuit, got {v}: name those you want by "
                "variables="
            )
    options = Pass()
    state = _passed(circuit, x, missing_mask, options)
    one = torch.ones(state.batch, dtype=circuit.dtype, device=circuit.device)
    rows = backward.run(state, one, options).rows
    missing = evidence.check(circuit.plan, x, missing_mask, circuit.device)
    found_tables = []
    for family in circuit.plan.inputs:
        if set(family.variables.tolist()).isdisjoint(wanted):
            continue
        whole = slice(0, family.groups)
        theta = input_parameters(family, state.parameters, whole, family.dist.num_parameters)
        flows = rows[family.start : family.start + family.groups * family.nodes]
        flows = flows.view(family.groups, family.nodes, state.batch)
        probabilities = family.dist.probabilities(theta)
        table = torch.einsum("gkb,gkc->gbc", flows, probabilities)
        index = torch.from_numpy(family.variables).to(one.device)
        if missing is not None:
            total = flows.sum(1).unsqueeze(-1)
            here = x.t()[index].unsqueeze(-1)
            values = here == torch.arange(table.shape[-1], device=one.device)
            gone = missing.t()[index].unsqueeze(-1)
            table = torch.where(gone, table, values * total)
        found_tables.append((index, table))
    categories = max((table.shape[-1] for _, table in found_tables), default=0)
    tables = one.new_zeros(circuit.num_variables, state.batch, categories)
    for index, table in found_tables:
        tables[:, :, : table.shape[-1]].index_add_(0, index, table)
    tables = tables[wanted].transpose(0, 1)
    return tables / tables.sum(-1, keepdim=True)


@torch.no_grad()
def mpe(circuit: Circuit, x: Tensor, missing_mask: Tensor) -> tuple[Tensor, Tensor]:
    """(values [batch, variables], log-values [batch]) of the max-product decoding.

    Sums become maxima, missing leaves their modes. What is found is the most likely completion
    together with one choice for every latent variable, exactly; it is the most likely completion
    itself where the circuit is deterministic (one child of a sum at most is not 0), and a lower
    bound of it elsewhere. Impossible evidence gives -1 (NaN with continuous variables) and -inf.
    """
    state = _passed(circuit, x, missing_mask, Pass("mpe", keep=False))
    if state.batch == 0:
        return x.clone(), state.log_likelihood()
    values = topdown.decode(state) if isinstance(state, State) else state.walk(None)
    return values, state.log_likelihood()


@torch.no_grad()
def sample(circuit: Circuit, num_samples: int, generator: torch.Generator | int) -> Tensor:
    """Samples [num_samples, variables]: int64, or float64 with continuous variables.

    ``generator``: a `torch.Generator`, which moves on, or a seed.
    """
    if isinstance(num_samples, bool) or not isinstance(num_samples, int):
        raise TypeError(f"num_samples must be an int, got {num_samples!r}")
    if num_samples < 0:
        raise ValueError(f"num_samples must not be negative, got {num_samples}")
    if num_samples and (engine := circuit.engine()) is not None:
        return engine.sample(
            num_samples, circuit.parameters_flat.detach(), _generator(circuit, generator)
        )
    shape = (num_samples, circuit.num_variables)
    nothing = torch.zeros(shape, dtype=torch.int64, device=circuit.device)
    return conditional_sample(circuit, nothing, torch.ones_like(nothing).bool(), generator)


@torch.no_grad()
def conditional_sample(
    circuit: Circuit, x: Tensor, missing_mask: Tensor, generator: torch.Generator | int
) -> Tensor:
    """The same data with what is missing drawn from p(missing | the rest), jointly.

    Impossible evidence gives -1, or NaN with continuous variables, in the whole row.
    """
    source = _generator(circuit, generator)
    state = _passed(circuit, x, missing_mask, Pass(keep=False))
    return topdown.sample(state, source) if isinstance(state, State) else state.walk(source)


def _generator(circuit: Circuit, generator: torch.Generator | int) -> torch.Generator:
    if isinstance(generator, bool) or not isinstance(generator, (int, torch.Generator)):
        raise TypeError(
            f"generator must be a torch.Generator or a seed, got {type(generator).__name__}"
        )
    if isinstance(generator, int):
        return torch.Generator(circuit.device).manual_seed(generator)
    return generator


@torch.no_grad()
def top_down_probabilities(circuit: Circuit) -> Tensor:
    """td [rows]: the probability that a sample visits a row; see `Circuit.rows`.

    td(root) = 1, td(c) = sum_n td(n) theta[n, c], a product hands its own to each child: these
    are the flows when every variable is missing.
    """
    nothing = torch.zeros(1, circuit.num_variables, dtype=torch.int64, device=circuit.device)
    missing = torch.ones_like(nothing).bool()
    options = Pass()
    state = _passed(circuit, nothing, missing, options)
    one = torch.ones(1, dtype=circuit.dtype, device=circuit.device)
    return backward.run(state, one, options).rows[:, 0]


def _passed(circuit: Circuit, x: Tensor, missing_mask: Tensor, options: Pass) -> AnyState:
    """A forward pass, by kernels where there are some."""
    found = circuit.read(x, missing_mask)
    return circuit.run_pass(found, options, circuit.parameters_flat.detach())
