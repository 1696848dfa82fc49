"""The kinds of claims by name. To add one, write a function of a `Case` and add a line to `KINDS`."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.claims import chains, dirichlet, ledgers, noise, releases, selections, trajectories
from benchmarks.claims.cases import Case

KINDS: dict[str, Callable[[Case], None]] = {
    "private-support": selections.private_support,
    "release": releases.release,
    "statement": releases.statement,
    "deviation": chains.deviation,
    "stationary-elasticity": chains.elasticity,
    "dirichlet": dirichlet.dirichlet,
    "dirichlet-calibrate": dirichlet.calibrate,
    "theorem1": dirichlet.theorem1,
    "renyi": dirichlet.renyi,
    "pseudocount": dirichlet.pseudocount,
    "matrix": dirichlet.matrix,
    "noise": noise.noise,
    "groups": noise.groups,
    "trajectory": trajectories.online,
    "trajectory-calibrate": trajectories.calibrated,
    "offline": trajectories.offline,
    "ledger": ledgers.ledger,
}
