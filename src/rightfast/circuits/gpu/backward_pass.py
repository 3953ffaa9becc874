"""A backward pass by its options: which launches, in which order."""

from dataclasses import dataclass, replace

from rightfast.circuits.gpu import backward_steps, log_steps, max_steps, steps
from rightfast.circuits.gpu.steps import Memory, Settings, Step
from rightfast.circuits.gpu.tables import Tables
from rightfast.circuits.plan import Plan


@dataclass(frozen=True)
class Options:
    """Of a backward pass; ``flows`` and ``derivative``: what it gives besides the rows' flows."""

    settings: Settings
    flows: bool
    derivative: bool
    log_space: bool = False
    temperature: float = 1.0


@dataclass(frozen=True)
class Launches:
    """In order: called with (n, weights), (theta,), (theta, out) and (theta, out, x, missing)."""

    root: Step
    rows: list[Step]
    parameters: list[Step]
    inputs: list[Step]


def launches(
    plan: Plan, tables: Tables, memory: Memory, tempered: Memory | None, options: Options
) -> Launches:
    """``tempered``: the memory of sums for a temperature, where there is one."""
    settings, derivative = options.settings, options.derivative
    if settings.maximum:
        return Launches(
            backward_steps.root_flow(plan, memory),
            max_steps.element_flows(plan, tables, memory),
            max_steps.parameter_flows(tables, memory, derivative),
            max_steps.input_flows(plan, tables, memory, settings, derivative),
        )
    if options.log_space:
        logs = replace(memory, flows=memory.logs)
        root = log_steps.root_flow(plan, logs)
        rows = log_steps.element_flows(tables, logs, settings)
    else:
        root = backward_steps.root_flow(plan, memory)
        rows = backward_steps.element_flows(plan, tables, memory, settings)
    inputs = backward_steps.input_flows(plan, tables, memory, settings, derivative)
    if tempered is not None:
        settings, memory = replace(settings, alpha=1 / options.temperature), tempered
    if options.flows or derivative:
        if tempered is not None:
            rows += steps.tempered(tables, memory, settings)
        if tempered is not None or options.log_space:
            rows += backward_steps.quotients(plan, tables, memory, settings)
    parameters = backward_steps.parameter_flows(tables, memory, settings, derivative)
    return Launches(root, rows, parameters, inputs)
