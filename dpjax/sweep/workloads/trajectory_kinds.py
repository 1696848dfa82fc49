"""The mechanisms that a sweep over private trajectories compares, and the two guarantees that label each of them.

kind          the next private state
mechanism1    permute-and-flip on G(r, s), coin scale epsilon / (2 rho)             (second paper, Mechanism 1)
exponential   the exponential mechanism on the same scores and scale
prior         mechanism1 with prior_weight W(i, r) added to the cost of going from i to r
hamming       mechanism1 at rho = b max G_avg                                       (second paper, Appendix C)
chen          copies the sensitive state if it can                                  (Chen et al. 2023; Mechanism 2)
offline       the whole trajectory drawn at once, from P^base_weight as base        (`dpjax.trajectory.OfflineMechanism`)

"epsilon = 1, rho = 1" and "epsilon = 1, b = 1" are different promises. Two numbers make them comparable, both about replacing one state i
by another state j at one time, in nats:

    metric rate           the loss is at most rate * G_avg(i, j):  epsilon / rho, for chen (epsilon / b) / min G_avg
    single substitution   the largest loss over all i and j: exact where all pairs are affordable, else its proved bound (offline: always)

*Matched*, a mechanism runs at the largest epsilon found whose single-substitution epsilon is at most the target. Every candidate is verified
by the exact loss before it is taken, as in `dpjax.trajectory.match_substitution`; the loss is nearly proportional to epsilon, so that five
evaluations do where bisection takes forty. Where only the bound is affordable it is matched instead, and the results say so.

The law of a private trajectory step by step, the same form for mechanisms that run online and for the offline one.

Online the law of a step depends on the sensitive state it follows, so that there is one table for each distinct state. Offline it
depends on all that is still to come: one table for each step.

What a cell of a sweep over private trajectories knows exactly, without sampling.

For the sensitive trajectory s_0..s_n, thresholds v and lengths l: P(max_t G(s'_t, s_t) > v), E G(s'_t, s_t), P(s'_t = s_t), and mean and
standard deviation of the empirical entropy H_l of the private trajectory (nats a transition); of a trajectory of the chain itself from the
same initial law; and H_l of the sensitive trajectory.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from dpjax.chains import MarkovChain
from dpjax.sweep.workload import Quantity
from dpjax.trajectory import ChenMechanism, OfflineMechanism, TrajectoryMechanism, exact_law
from dpjax.trajectory.calibration import MARGIN
from dpjax.trajectory.graph import Arrivals, ChainGraph, Moments, graph_of, next_moments
from dpjax.trajectory.losses import affordable
from dpjax.trajectory.mechanism import OnlineMechanism

Kind = Literal["mechanism1", "exponential", "prior", "hamming", "chen", "offline"]
KINDS = get_args(Kind)
CLOSE = 1e-6  # a matched epsilon within this of its target, relative
_TRIES = 40
_ROUNDING = 2**-50  # so that a bound computed from a matched epsilon is not above its target


class Distances(NamedTuple):
    """The smallest and the largest G_avg between distinct states, nats."""

    least: float
    most: float


class Guarantee(NamedTuple):
    """What a mechanism promises for the replacement of one state at one time; `exact` says whether `substitution` is exact."""

    rate: float
    substitution: float
    exact: bool


class Made(NamedTuple):
    """A mechanism with its guarantee."""

    mechanism: Tabulated | OfflineMechanism
    guarantee: Guarantee

    @property
    def epsilon(self) -> float:
        """The nominal epsilon that it runs at."""
        return float(self.mechanism.of.epsilon if isinstance(self.mechanism, Tabulated) else self.mechanism.epsilon)


@dataclasses.dataclass(frozen=True, eq=False)
class Tabulated(OnlineMechanism):
    """A mechanism that computes the law of each sensitive state once: its exact law and its draws then share the tables."""

    of: TrajectoryMechanism | ChenMechanism
    tables: dict[int, Float[Array, " slots"]] = dataclasses.field(default_factory=dict)

    @property
    def chain(self) -> MarkovChain:  # type: ignore[override]
        """The chain of the mechanism."""
        return self.of.chain

    @property
    def scale(self) -> float:
        """Its coin scale."""
        return self.of.scale

    @property
    def rule(self) -> tuple[str, float]:
        """Its selection and the weight of its prior."""
        return self.of.rule

    def costs_to(self, targets: Int[np.ndarray, " targets"]) -> Float[np.ndarray, "targets n"]:
        """Its costs."""
        return self.of.costs_to(targets)

    def law_table(self, s: int) -> Float[Array, " slots"]:
        """pi(. | s, i) of every row i, computed the first time."""
        if s not in self.tables:
            self.tables[s] = super().law_table(s)
        return self.tables[s]


def distances_of(chain: MarkovChain) -> Distances:
    """The smallest and the largest G_avg of distinct states; all pairs are found for it, once."""
    G = graph_of(chain).all_distances()
    average = (G + G.T) / 2
    most = float(average.max())
    np.fill_diagonal(average, np.inf)
    return Distances(float(average.min()), most)


def make(
    chain: MarkovChain,
    kind: Kind,
    *,
    epsilon: float,
    rho: float,
    b: int,
    prior_weight: float,
    matched: bool,
    apart: Distances,
    close: float = CLOSE,
    base_weight: float = 0.0,
) -> Made:
    """The mechanism of a cell. matched: `epsilon` is the single-substitution epsilon to run at, met within `close` of it, relative."""
    if kind == "chen":
        nominal = epsilon * b if matched else epsilon
        chen = ChenMechanism(chain, epsilon=nominal, b=b)
        rate = chen.scale / apart.least if apart.least > 0 else np.inf
        attained = bool(np.diff(chen.graph.edges.offsets).max() >= 2)  # by two candidates of one state, each the sensitive one
        return Made(Tabulated(chen), Guarantee(rate, chen.scale, attained))
    if kind == "offline":
        nominal = epsilon * rho / (apart.most * MARGIN) * (1 - _ROUNDING) if matched else epsilon
        offline = OfflineMechanism(chain, epsilon=nominal, rho=rho, base_weight=base_weight)
        return Made(offline, Guarantee(nominal / rho, offline.substitution_bound(), False))
    m = _graded(chain, kind, epsilon, rho, b, prior_weight, apart)
    m, loss = matched_to(m, epsilon, apart, close) if matched else (m, _loss(m, apart))
    return Made(Tabulated(m), Guarantee(m.epsilon / m.rho, loss * MARGIN, affordable(m)))


def _graded(
    chain: MarkovChain, kind: Kind, epsilon: float, rho: float, b: int, prior_weight: float, apart: Distances
) -> TrajectoryMechanism:
    """Mechanism 1 or one of its variants, at its nominal epsilon."""
    return TrajectoryMechanism(
        chain,
        epsilon=epsilon,
        rho=b * apart.most if kind == "hamming" else rho,
        selection="exponential" if kind == "exponential" else "permute-and-flip",
        prior_weight=prior_weight if kind == "prior" else 0.0,
    )


def _loss(m: TrajectoryMechanism, apart: Distances) -> float:
    """The exact single-substitution loss, or where all pairs are too many its bound (epsilon / rho) max G_avg."""
    return substitution_epsilon_above(m) if affordable(m) else m.epsilon / m.rho * apart.most


def matched_to(m: TrajectoryMechanism, target: float, apart: Distances, close: float = CLOSE) -> tuple[TrajectoryMechanism, float]:
    """`m` at the largest epsilon found whose loss, with a margin for round-off, is at most `target`; and that loss."""
    verified = dataclasses.replace(m, epsilon=target * m.rho / apart.most / MARGIN)  # by the proved bound
    loss, beyond = _loss(verified, apart), np.inf
    for _ in range(_TRIES):
        if loss * MARGIN >= target * (1 - close) or beyond <= verified.epsilon * (1 + close):
            break
        proposed = verified.epsilon * target * (1 - close / 4) / (loss * MARGIN)
        if proposed >= beyond:
            proposed = np.sqrt(verified.epsilon * beyond)
        tried = dataclasses.replace(m, epsilon=float(proposed))
        found = _loss(tried, apart)
        if found * MARGIN <= target:
            verified, loss = tried, found
        else:
            beyond = tried.epsilon
    return verified, loss


class Steps(NamedTuple):
    """s'_0 has the law `first`; transition t the law `laws[position[t]]` of every row, in the slots of the packed neighbours."""

    first: Float[np.ndarray, " n"]
    laws: list[Float[Array, " slots"]]
    position: Int[np.ndarray, " transitions"]

    def kernels(self, arrivals: Arrivals) -> Iterator[Float[np.ndarray, " edges"]]:
        """The law of each transition, by arriving edge."""
        kernels = [np.asarray(law)[arrivals.slots] for law in self.laws]
        return (kernels[at] for at in self.position)


def steps_of(m: Tabulated | OfflineMechanism, states: Int[np.ndarray, " steps"], initial: Float[np.ndarray, " n"]) -> Steps:
    """The steps of the private trajectory of `states`; `initial` is p_0, from which the offline mechanism draws no s'_0 directly."""
    if isinstance(m, OfflineMechanism):
        messages, n = m.messages(states), len(states) - 1
        laws = [m.laws(states, messages, first, last) for first, last in m.stretches(n)]
        with jax.enable_x64(True):
            return Steps(m.first_law(messages, initial), list(jnp.asarray(np.concatenate(laws))), np.arange(n, dtype=np.int32))
    distinct, position = np.unique(states[1:], return_inverse=True)
    with jax.enable_x64(True):
        return Steps(initial, [m.law_table(int(s)) for s in distinct], position.astype(np.int32))


EXACT = {
    "exceedance": Quantity(long_name="exact P(max_t G(s'_t, s_t) > v)", dims=("threshold",)),
    "expected_error": Quantity(long_name="exact mean error G(s'_t, s_t) over t = 1..n", units="nats"),
    "expected_final_error": Quantity(long_name="exact mean error at the last step", units="nats"),
    "expected_agreement": Quantity(long_name="exact mean share of steps equal to the sensitive state"),
    "expected_entropy": Quantity(long_name="exact mean empirical entropy", units="nats a transition", dims=("length",)),
    "entropy_deviation": Quantity(
        long_name="exact standard deviation of the empirical entropy", units="nats a transition", dims=("length",)
    ),
    "chain_entropy": Quantity(
        long_name="exact mean empirical entropy of the chain's own trajectories", units="nats a transition", dims=("length",)
    ),
    "chain_entropy_deviation": Quantity(long_name="its exact standard deviation", units="nats a transition", dims=("length",)),
    "sensitive_entropy": Quantity(
        long_name="empirical entropy of the sensitive trajectory", units="nats a transition", dims=("length",)
    ),
}


def exact_quantities(
    m: Tabulated | OfflineMechanism,
    steps: Steps,
    states: Int[np.ndarray, " states"],
    initial: Float[np.ndarray, " n"],
    thresholds: Float[np.ndarray, " thresholds"],
    lengths: Int[np.ndarray, " lengths"],
) -> Mapping[str, float | np.ndarray]:
    """Every quantity of EXACT; `initial` is p_0, `steps` the law of the private trajectory that it leads to."""
    law = exact_law(m, states, initial)
    entropy, deviation = entropies(m.graph.arrivals, steps.first, steps.kernels(m.graph.arrivals), lengths)
    own, own_deviation = chain_entropy(m.graph, initial, lengths)
    n = len(states) - 1
    return {
        "exceedance": np.asarray(law.exceedance(thresholds)),
        "expected_error": float(law.expected_error[1:].mean()),
        "expected_final_error": float(law.expected_error[-1]),
        "expected_agreement": float(law.marginals[np.arange(1, n + 1), states[1:]].mean()),
        "expected_entropy": entropy,
        "entropy_deviation": deviation,
        "chain_entropy": own,
        "chain_entropy_deviation": own_deviation,
        "sensitive_entropy": _own_entropy(m.graph, states, lengths),
    }


def chain_entropy(
    graph: ChainGraph, initial: Float[np.ndarray, " n"], lengths: Int[np.ndarray, " lengths"]
) -> tuple[Float[np.ndarray, " lengths"], Float[np.ndarray, " lengths"]]:
    """Mean and standard deviation of H_l over trajectories of the chain from the law `initial`, for each length l."""
    return entropies(graph.arrivals, initial, itertools.repeat(np.exp(-graph.arrivals.lengths)), lengths)


def entropies(
    arrivals: Arrivals,
    first: Float[np.ndarray, " n"],
    kernels: Iterable[Float[np.ndarray, " edges"]],
    lengths: Int[np.ndarray, " lengths"],
) -> tuple[Float[np.ndarray, " lengths"], Float[np.ndarray, " lengths"]]:
    """Mean and standard deviation of H_l for each length l, of a trajectory whose transitions have these kernels, in one pass."""
    moments, total = Moments(first, np.zeros_like(first), np.zeros_like(first)), 0.0
    found: dict[int, tuple[float, float]] = {}
    for length, kernel in zip(range(1, int(lengths.max()) + 1), kernels, strict=False):
        moments, mean = next_moments(arrivals, kernel, moments)
        total += mean
        found[length] = total / length, float(np.sqrt(max(moments.second.sum(), 0.0))) / length
    means, deviations = np.array([found[int(length)] for length in lengths]).T
    return means, deviations


def _own_entropy(
    graph: ChainGraph, states: Int[np.ndarray, " states"], lengths: Int[np.ndarray, " lengths"]
) -> Float[np.ndarray, " lengths"]:
    edges = graph.edges
    place = np.searchsorted(edges.owners * graph.n_states + edges.states, states[:-1] * graph.n_states + states[1:])
    return np.cumsum(edges.lengths[place])[lengths - 1] / lengths
