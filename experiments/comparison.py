"""All trajectory mechanisms side by side, at the papers' parameters and at matched single-substitution privacy, on all chains.

For each of several sensitive trajectories drawn from the chain (first state public): mean error, tail and entropy of the private trajectory
from its exact law, and the probability of the typical set from DRAWS private trajectories each. The chain itself, which uses no sensitive
state (the offline mechanism at epsilon 0 with the chain as base), is the reference that a mechanism should beat.

Matched means that replacing one state costs epsilon: exactly if all pairs are affordable, otherwise by the proved bound. For the offline
mechanisms it is always the bound, since their loss depends on the rest of the trajectory.
"""

from __future__ import annotations

import functools
import pathlib

import jax
import numpy as np
import xarray as xr

from dpjax import plot
from dpjax.chains import MarkovChain
from dpjax.trajectory import empirical_entropy, make
from dpjax.trajectory.graph import graph_of
from dpjax.trajectory.protocol import Made, TrajectoryProtocol
from experiments import comparison_table
from experiments.chains import NamedChain, named_chains
from experiments.stored import stored

EPSILONS, FEW = (0.5, 1.0, 3.0, 5.0, 10.0), (1.0, 3.0, 10.0)
MANY = 100  # states from which on the loss of all pairs takes seconds, so that only FEW are compared
COMPARISONS = ("papers", "matched")
VARIANTS = {"offline-chain": 1.0, "chain": 1.0}  # the offline mechanism with this weight of the chain in its base
KINDS = ("mechanism1", "prior", "exponential", "chen", "offline", *VARIANTS)
PRIOR_WEIGHT = 0.5  # by experiments.prior_weights: the entropy of a random private trajectory is then closest to the chain's own
RHO, B = 1.0, 1
TRAJECTORIES, STEPS, DRAWS = 10, 20, 200
ETA = 0.25  # nats per transition: half the width of the typical set
LEVELS = (0.125, 0.25, 0.5)  # the stored errors v, as shares of the largest distance between two states
CLOSE = 0.01  # relative amount by which matched privacy may be below its target

_entropy = jax.jit(empirical_entropy)


def run(out: pathlib.Path, data: pathlib.Path | None) -> list[pathlib.Path]:
    """The tables of all chains, as Markdown and CSV, and a figure for each chain; with `data` also for the real chains."""
    found = []
    for one in named_chains(None) + (named_chains(data) if data is not None else []):
        print(f"== comparison on {one.name}", flush=True)
        found.append(_of_chain(one, out / "comparison"))
        for path in plot.draw(found[-1], out / "comparison" / "figures"):
            print(path)
    return comparison_table.write(found, out)


def _of_chain(one: NamedChain, directory: pathlib.Path) -> xr.Dataset:
    epsilons = EPSILONS if one.chain.n_states <= MANY else FEW
    settings = {
        "data": one.fingerprint,
        "walks": [dict(one.trajectory), TRAJECTORIES, STEPS, DRAWS],
        "mechanisms": [epsilons, KINDS, PRIOR_WEIGHT, RHO, B, CLOSE],
        "measures": [ETA, LEVELS],
        "version": 1,
    }
    return stored(directory / f"{one.name}.nc", settings, lambda: compare(one, epsilons))


def compare(
    one: NamedChain,
    epsilons: tuple[float, ...],
    kinds: tuple[str, ...] = KINDS,
    trajectories: int = TRAJECTORIES,
    draws: int = DRAWS,
) -> xr.Dataset:
    """Every mechanism at every epsilon, nominal and matched, on the same sensitive trajectories with the same random numbers."""
    paths = one.trajectories(trajectories, STEPS)
    levels = np.array(LEVELS) * float(graph_of(one.chain).all_distances().max())

    @functools.cache
    def cell(kind: str, epsilon: float, matched: bool) -> xr.Dataset:
        return _measured(_made(one.chain, kind, epsilon, matched), paths, levels, draws)

    def distinct(kind: str, epsilon: float, matched: bool) -> xr.Dataset:
        """The cell; the chain itself is the same at every epsilon, and Mechanism 2 at b = 1 meets the target without matching."""
        return cell(kind, 0.0 if kind == "chain" else epsilon, matched and kind not in ("chain", "chen"))

    nested = [[[distinct(k, e, matched) for k in kinds] for e in epsilons] for matched in (False, True)]
    results = xr.combine_nested(nested, ["comparison", "epsilon", "mechanism"])
    return results.assign_coords(
        comparison=list(COMPARISONS), epsilon=list(epsilons), mechanism=list(kinds), level=levels
    ).assign_attrs(
        name=f"{one.name}-comparison",
        workload="trajectory-comparison",
        data_source=one.source,
        n_states=one.chain.n_states,
        steps=STEPS,
        draws=draws,
        eta=ETA,
        prior_weight=PRIOR_WEIGHT,
    )


def _made(chain: MarkovChain, kind: str, epsilon: float, matched: bool) -> Made:
    """A mechanism and its guarantee for replacing one state; a mechanism that uses no sensitive state has exactly 0."""
    options = {"rho": RHO, "b": B, "prior_weight": PRIOR_WEIGHT, "base_weight": VARIANTS.get(kind, 0.0)}
    registered = "offline" if kind in VARIANTS else kind
    made = make(chain, registered, epsilon=epsilon, matched=matched, tolerance=CLOSE, **options)
    return made._replace(guarantee=made.guarantee._replace(exact=made.guarantee.exact or epsilon == 0))


def _measured(made: Made, paths: list[np.ndarray], levels: np.ndarray, draws: int) -> xr.Dataset:
    """The stored results of one mechanism: exact for each sensitive trajectory, except `typical`, which is a share of the draws."""
    m, guarantee = made
    laws = [m.exact_law(path, start=int(path[0])) for path in paths]
    entropies = [_sampled_entropy(m, path, index, draws) for index, path in enumerate(paths)]
    rate = m.chain.entropy_rate()
    return xr.Dataset(
        {
            "error": ("trajectory", [float(law.expected_error[1:].mean()) for law in laws]),
            "exceedance": (("trajectory", "level"), np.stack([law.exceedance(levels) for law in laws])),
            "entropy": ("trajectory", [law.expected_entropy for law in laws]),
            "typical": ("trajectory", [float((np.abs(found - rate) <= ETA).mean()) for found in entropies]),
            "metric_rate": guarantee.rate,
            "substitution_epsilon": guarantee.substitution,
            "substitution_exact": float(guarantee.exact),
        }
    )


def _sampled_entropy(m: TrajectoryProtocol, path: np.ndarray, index: int, draws: int) -> np.ndarray:
    """The empirical entropy of `draws` private trajectories; all mechanisms use the same random numbers for a trajectory."""
    private = m.sample(jax.random.fold_in(jax.random.key(0), index), path, draws, start=int(path[0]))
    with jax.enable_x64(True):
        return np.asarray(_entropy(m.graph.neighbours, private))
