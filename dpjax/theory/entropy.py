"""The empirical entropy of the private trajectory of a random sensitive one: bounds on its mean and tails, and its distribution.

Paper B, Theorems 3 and 4, corrected; each bound beside the exact value. H_n = (1/n) sum_{t<n} W(s'_t, s'_{t+1}), S = n H_n; Z_t = (s_t,
s'_t) is the joint chain.

*The mean.* kappa(i, j) = W(i, j) - G(i, j) >= 0 on edges is the excess of an edge over the shortest path between its ends (kappa(i, i) =
-log P_ii).

    4a  (triangle)  E H_n <= (1/n) sum_t [E W(s_t, s_{t+1}) + E V_t + E G(s_{t+1}, s'_{t+1}) + E kappa(s'_t, s'_{t+1})];
        crude:      kappa at its largest, G(s, s') <= K_asym V with K_asym = max G(i, j) / G(j, i), +inf where some G(j, i) = 0;
    4b  (mismatch)  E H_n <= (1/n) sum_t [E W(s_t, s_{t+1}) + (W_max - W_min) P(not (s'_t = s_t and s'_{t+1} = s_{t+1}))];
        crude:      2 (W_max - W_min) / n sum_{t <= n} P(s'_t != s_t) in place of the last term.

4a without kappa is false: see `printed`. A bound is vacuous unless it is below W_max, which no transition exceeds.

*How fast the joint chain forgets its start*, for chains of up to 32 states:

    dbar(t) = max over joint states x, y of the total variation between T^t(x, .) and T^t(y, .),
    tau(e) = min { t : dbar(t) <= e },        tau_min = inf_{0 <= e < 1} tau(e) ((2 - e) / (1 - e))^2,

the last over blocks of t states in Theorem 4f. It is min_t t ((2 - dbar(t)) / (1 - dbar(t)))^2, and at most 9 t_mix, since dbar(t_mix) <=
1/2. For a horizon of n transitions one block may contain all n + 1 states: tau_min <= 4 (n + 1), also for a chain that never mixes.

*Tails*, and the typical set. g_t(z) = E[W_t + ... + W_{n-1} | Z_t = z]. For nu > 0,

    4c  (Azuma)      P(H_n >= E H_n + nu) <= exp(-2 n^2 nu^2 / sum_t r_t^2),
        r_t = the largest range, over z, of W(s', o) + g_{t+1}(s+, o) over what can follow z; and first the range of g_0 at the start;
    4d  (Chernoff)   P(H_n >= h) <= min_theta e^{-theta n h} E e^{theta S}, E by a forward pass with kernels K e^{theta W};
    4e  (Cantelli)   P(H_n >= E H_n + nu) <= Var / (Var + nu^2), Var = Var H_n, exactly;
    4f  (Paulin)     P(H_n >= E H_n + nu) <= exp(-2 n^2 nu^2 / ((4n - 2) (W_max - W_min)^2 tau_min)), tau_min as above;

and likewise below the mean. The typical set of width eta is |H_n - H(S)| <= eta. Its probability is at least 1 minus a bound above and a
bound below.

*The distribution* lies between two exact ones on a grid. Round every edge length to the nearest multiple c_e of a step d. With r = max_e
|W_e - c_e d|, the sum S and its rounded version S_d differ by at most n r on every trajectory, so for every h

    P(S_d <= n h - n r) <= P(H_n <= h) <= P(S_d <= n h + n r).

The distribution of (Z_t, S_d) is computed exactly, with |S| |E| operations in each step for each grid point up to n h. The probability of
the typical set is therefore known up to the mass within n r of its two ends.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from jaxtyping import Float, Int

from dpjax._errors import real_array, require, require_number, require_whole
from dpjax.chains.mixing import mixing_time
from dpjax.chains.stationary import only_closed_class
from dpjax.trajectory.calibration import Bound, upper
from dpjax.trajectory.joint import JointChain, JointLaw
from dpjax.trajectory.kernel import one_step_extremes
from dpjax.trajectory.losses import MARGIN


class EntropyBounds(NamedTuple):
    """Upper bounds on E H_n, in nats per transition."""

    exact: float  # E H_n itself
    sensitive: float  # E of the sensitive trajectory's own empirical entropy
    triangle: Bound  # 4a
    triangle_crude: Bound
    mismatch: Bound  # 4b
    mismatch_crude: Bound


def asymmetry(G: Float[np.ndarray, "n n"]) -> float:
    """K_asym: the largest G(i, j) / G(j, i); +inf where G(j, i) = 0 < G(i, j)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(G > 0, G / G.T, 0.0)
    return float(ratios.max())


def crude_way_back(K_asym: float, error: float) -> float:
    """K_asym times the sum of E V_t; +inf if K_asym is, because E V_t = 0 then bounds nothing."""
    return math.inf if math.isinf(K_asym) else K_asym * error


def entropy_bounds(law: JointLaw) -> EntropyBounds:
    """Theorems 4a and 4b for the horizon and start of `law`.

    Args:
        law: The joint law of a sensitive and a private trajectory (`dpjax.trajectory.joint_law`).

    Returns:
        An `EntropyBounds`, in nats per transition.

    Source:
        Paper B, Theorem 3, corrected; see the module.

    Example:
        >>> from dpjax import MarkovChain, TrajectoryMechanism
        >>> from dpjax.theory import entropy_bounds
        >>> from dpjax.trajectory import joint_law
        >>> chain = MarkovChain.from_matrix([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
        >>> bounds = entropy_bounds(joint_law(TrajectoryMechanism.under_hamming(chain, epsilon=4.0), 10))
        >>> round(float(bounds.exact), 3), round(float(bounds.mismatch.value), 3)
        (1.136, 1.721)
    """
    chain, n = law.chain, law.n_steps
    edges, arrivals = chain.graph.edges, chain.graph.arrivals
    G = chain.graph.all_distances()
    ends = np.repeat(np.arange(chain.n_states), np.diff(arrivals.offsets))
    excess = np.maximum(arrivals.lengths - G[arrivals.owners, ends], 0.0)
    mean_excess = chain.private_means(np.ones_like(G), excess)
    again = np.diag(chain.backward(np.eye(chain.n_states)))  # P(s'_{t+1} = s_{t+1} | s'_t = s_t = s)
    own = float((law.sensitive_marginals[:-1].sum(axis=0)[edges.owners] * np.exp(-edges.lengths) * edges.lengths).sum())
    nu, kappa, back, matched, apart = law.start, 0.0, 0.0, 0.0, 1 - float(np.trace(law.start))
    for _ in range(n):
        kappa += float((chain.sensitive_step(nu) * mean_excess).sum())
        matched += float(np.diag(nu) @ again)
        nu = chain.forward(nu)
        back += float((nu * G).sum())
        apart += 1 - float(np.trace(nu))
    errors, spread, largest = law.expected_error, float(np.ptp(edges.lengths)), float(edges.lengths.max())
    crude_back = crude_way_back(asymmetry(G), float(errors[1:].sum()))
    return EntropyBounds(
        exact=law.expected_entropy,
        sensitive=own / n,
        triangle=upper((own + errors[:-1].sum() + back + kappa) / n, largest),
        triangle_crude=upper((own + errors[:-1].sum() + crude_back) / n + float(excess.max()), largest),
        mismatch=upper((own + spread * (n - matched)) / n, largest),
        mismatch_crude=upper((own + 2 * spread * apart) / n, largest),
    )


_LARGEST = 1024  # joint states


def joint_mixing_time(chain: JointChain) -> int:
    """The smallest t at which the joint chain is within total variation 1/4 of stationary from every recurrent state.

    For chains of up to 32 states. InputError for a periodic or larger one.
    """
    _require_small(chain, "t_mix")
    T = chain.matrix()
    states = only_closed_class(T, "the joint chain")
    return mixing_time(T.toarray()[np.ix_(states, states)])


def mixing_factor(chain: JointChain, n_steps: int) -> float:
    """tau_min of Theorem 4f for n_steps transitions: an upper bound within 1e-12. Dense: n_states^6 operations for each t tried."""
    require_whole(n_steps, "n_steps", "give the number of transitions, a whole number, 1 or more", least=1)
    _require_small(chain, "tau_min")
    return _mixing_factor(chain, n_steps)


@functools.lru_cache(maxsize=8)
def _mixing_factor(chain: JointChain, n_steps: int) -> float:
    T = chain.matrix().toarray()
    best, power = 4.0 * (n_steps + 1), T
    for t in range(1, n_steps + 1):
        if 4 * t >= best:
            break  # no later t can do better
        apart = min(farthest_rows(power) * MARGIN, 1.0)
        if apart < 1:
            best = min(best, t * ((2 - apart) / (1 - apart)) ** 2)
        power = power @ T
    return best * MARGIN


def farthest_rows(P: Float[np.ndarray, "n n"]) -> float:
    """The largest total variation between two rows."""
    return max(float(np.abs(row - P[i:]).sum(axis=1).max()) for i, row in enumerate(P)) / 2


def _require_small(chain: JointChain, argument: str) -> None:
    n = chain.n_states
    require(
        n**2 <= _LARGEST, "chain", None, f"the joint chain is too large to compute it: pass {argument}", problem=f"has {n} states"
    )


_LARGEST_EXPONENT = 300.0  # theta (W_max - W_min)
_LEAST_FACTOR = 4.0  # the least t ((2 - e) / (1 - e))^2 over t >= 1 and 0 <= e < 1
_MEAN_ERROR = 1e-12  # relative error allowed for E H_n and Var H_n


class EntropyConcentration:
    """Bounds on P(H_n >= E H_n + nu), or on P(H_n <= E H_n - nu) with `below`, for the horizon and start of `law`.

    Every method takes nu, a deviation in nats per transition, a number or an array. A deviation of 0 or less gives a vacuous bound of 1 or
    more.

    Args:
        law: The joint law of a sensitive and a private trajectory (`dpjax.trajectory.joint_law`).

    Source:
        Paper B, Theorem 4, corrected; see the module.

    Example:
        >>> from dpjax import MarkovChain, TrajectoryMechanism
        >>> from dpjax.theory import EntropyConcentration
        >>> from dpjax.trajectory import joint_law
        >>> chain = MarkovChain.from_matrix([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
        >>> found = EntropyConcentration(joint_law(TrajectoryMechanism.under_hamming(chain, epsilon=4.0), 10))
        >>> round(float(found.best(0.5).value), 3)
        0.081
    """

    def __init__(self, law: JointLaw) -> None:
        self.law = law
        self.mean = law.expected_entropy

    def azuma(self, nu: Any) -> Bound:
        """Theorem 4c, the same for both sides."""
        deviation = self._deviation(nu)
        total = float((self.ranges**2).sum())
        exponent = np.where(deviation > 0, 2 * (self.law.n_steps * deviation) ** 2, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return upper(np.exp(-np.where(exponent > 0, exponent / total, 0.0)), 1.0)

    def cantelli(self, nu: Any) -> Bound:
        """Theorem 4e, the same for both sides."""
        deviation = self._deviation(nu)
        variance = max(self.law.variance_entropy, 0.0) * (1 + _MEAN_ERROR) + _MEAN_ERROR * self.mean**2
        squared = np.where(deviation > 0, deviation, 0.0) ** 2
        return upper(np.where(squared > 0, variance / np.where(squared > 0, variance + squared, 1.0), 1.0), 1.0)

    def paulin(self, nu: Any, tau_min: float | int | None = None) -> Bound:
        """Theorem 4f, the same for both sides.

        Args:
            nu: The deviation in nats per transition.
            tau_min: The mixing factor of the joint chain, at least 4; 9 t_mix is valid. Default: computed, for chains of up to 32 states.

        Raises:
            InputError: The chain has more than 32 states and `tau_min` is missing.
        """
        deviation, n = self._deviation(nu), self.law.n_steps
        found = mixing_factor(self.law.chain, n) if tau_min is None else tau_min
        remedy = "pass the mixing factor of the joint chain, in steps: it is never below 4"
        require_number(found, "tau_min", remedy, lambda x: x >= _LEAST_FACTOR)
        exponent = np.where(deviation > 0, 2 * (n * deviation) ** 2, 0.0)
        spread = max(float(np.ptp(self.law.chain.lengths)), np.finfo(float).tiny)
        with np.errstate(over="ignore"):
            return upper(np.exp(-exponent / (4 * n - 2) / spread / spread / found), 1.0)

    def chernoff(self, nu: Any, below: bool = False) -> Bound:
        """Theorem 4d. It takes about 30 forward passes for each nu."""
        deviation = self._deviation(nu)
        found = [self._chernoff(float(one), -1 if below else 1) if one > 0 else 1.0 for one in deviation.reshape(-1)]
        return upper(np.array(found).reshape(deviation.shape), 1.0)

    def best(self, nu: Any, below: bool = False) -> Bound:
        """The smallest of the bounds 4c, 4d and 4e."""
        value = np.minimum(np.minimum(self.azuma(nu).value, self.cantelli(nu).value), self.chernoff(nu, below).value)
        return Bound(value, np.asarray(~(value < 1)))

    @functools.cached_property
    def ranges(self) -> Float[np.ndarray, " steps"]:
        """The range of g_0 over the support of the start, then r_0 .. r_{n-1}, in nats."""
        chain, found = self.law.chain, []
        g = np.zeros_like(self.law.start)
        for _ in range(self.law.n_steps):
            low, high = one_step_extremes(chain.graph.edges, g, chain.graph.edges.lengths)
            found.append(float((high - low).max()))
            g = chain.backward(g) + chain.P @ chain.mean_lengths
        found.append(float(np.ptp(g[self.law.start > 0])))
        return np.array(found[::-1])

    def log_moment(self, theta: float) -> float:
        """log E e^{theta S}. |theta| times the range of the edge lengths must be at most 300."""
        chain, lengths = self.law.chain, self.law.chain.lengths
        remedy = f"give at most 300/{np.ptp(lengths):.4g} in size"
        require_number(theta, "theta", remedy, lambda x: abs(x) * np.ptp(lengths) <= _LARGEST_EXPONENT)
        reference = float(lengths.max() if theta > 0 else lengths.min())
        weight, nu, total = np.exp(theta * (lengths - reference)), self.law.start, 0.0
        for _ in range(self.law.n_steps):
            nu = chain.forward(nu, weight)
            mass = float(nu.sum())
            nu, total = nu / mass, total + np.log(mass) + theta * reference
        return float(total)

    def _chernoff(self, nu: float, sign: int) -> float:
        spread = float(np.ptp(self.law.chain.lengths))
        if spread == 0:
            return 0.0
        target = self.law.n_steps * (self.mean + sign * nu)

        def exponent(log_theta: float) -> float:
            theta = sign * float(np.exp(log_theta))
            return self.log_moment(theta) - theta * target

        most = float(np.log(_LARGEST_EXPONENT * (1 - 1e-12) / spread))
        result = scipy.optimize.minimize_scalar(exponent, bounds=(most - 16, most), method="bounded", options={"xatol": 0.01})
        return float(np.exp(min(result.fun, 0.0) + 1e-10))

    def _deviation(self, nu: Any) -> Float[np.ndarray, "*asked"]:
        deviation = real_array(nu, "nu", "give a deviation in nats a transition")
        return np.where(deviation > 0, deviation - _MEAN_ERROR * self.mean, deviation)


def typical_probability(law: JointLaw, eta: float | int) -> float:
    """A lower bound on P(|H_n - H(S)| <= eta), H(S) the entropy rate; 0 if the bounds are vacuous.

    Like H_n, it leaves out the probability of the first state, which is 1 for a public start.

    Args:
        law: The joint law of a sensitive and a private trajectory.
        eta: The width in nats per transition, positive.

    Returns:
        A probability.
    """
    require_number(eta, "eta", "give a positive width in nats a transition", lambda x: x > 0)
    found, rate = EntropyConcentration(law), law.chain.mechanism.chain.entropy_rate()
    above = found.best(rate + eta - found.mean).value
    below = found.best(found.mean - (rate - eta), below=True).value
    return max(0.0, float(1 - above - below))


_LARGEST_TABLE = 2**27  # numbers in the table of (s, s', grid)


class Interval(NamedTuple):
    """An interval that contains a probability: lower <= probability <= upper."""

    lower: float
    upper: float


def entropy_distribution(law: JointLaw, h: float | int, resolution: float | int = 0.01) -> Interval:
    """An interval for P(H_n <= h). Both ends lie between the probabilities at h -+ 2 resolution.

    Args:
        law: The joint law of a sensitive and a private trajectory.
        h: The entropy in nats per transition.
        resolution: The resolution of the grid in nats per transition, positive.

    Returns:
        An `Interval`.
    """
    return _Grid(law, h, resolution).at_most(h)


def typical_interval(law: JointLaw, eta: float | int, resolution: float | int = 0.01) -> Interval:
    """An interval for P(|H_n - H(S)| <= eta), H(S) the entropy rate of the chain. The probability of the first state is left out.

    Args:
        law: The joint law of a sensitive and a private trajectory.
        eta: The width in nats per transition, positive.
        resolution: The resolution of the grid in nats per transition, positive.

    Returns:
        An `Interval`.

    Example:
        >>> from dpjax import MarkovChain, TrajectoryMechanism
        >>> from dpjax.theory import typical_interval
        >>> from dpjax.trajectory import joint_law
        >>> chain = MarkovChain.from_matrix([[0.6, 0.3, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
        >>> found = typical_interval(joint_law(TrajectoryMechanism.under_hamming(chain, epsilon=4.0), 10), 0.3, 0.05)
        >>> round(found.lower, 3), round(found.upper, 3)
        (0.596, 0.752)
    """
    require_number(eta, "eta", "give a positive width in nats a transition", lambda x: x > 0)
    rate = law.chain.mechanism.chain.entropy_rate()
    grid = _Grid(law, rate + eta, resolution)
    above, below = grid.at_most(rate + eta), grid.at_most(rate - eta)
    return Interval(max(0.0, above.lower - below.upper), min(1.0, above.upper - below.lower))


class _Grid:
    """The distribution of the rounded sum S_d up to n h."""

    def __init__(self, law: JointLaw, h: float | int, resolution: float | int) -> None:
        require_number(h, "h", "give an entropy in nats a transition")
        require_number(resolution, "resolution", "give a positive resolution in nats a transition", lambda x: x > 0)
        self.n, self.step = law.n_steps, 2 * resolution
        lengths = law.chain.lengths
        cells = np.rint(lengths / self.step).astype(np.int64)
        self.slack = self.n * float(np.abs(lengths - cells * self.step).max()) * (1 + 1e-9) + 1e-9
        size = max(int((self.n * h + self.slack) / self.step) + 1, 1)
        table = law.start.size * size
        require(
            table <= _LARGEST_TABLE,
            "resolution",
            resolution,
            f"the grid needs {table} numbers: pass a larger resolution or a shorter horizon",
        )
        self.cumulative = np.cumsum(_rounded_law(law, cells, size))

    def at_most(self, h: float | int) -> Interval:
        """An interval that contains P(H_n < h) and P(H_n <= h)."""
        return Interval(self._mass(self.n * h - self.slack) / MARGIN, min(1.0, self._mass(self.n * h + self.slack) * MARGIN))

    def _mass(self, total: float) -> float:
        last = int(np.floor(total / self.step))
        return float(self.cumulative[min(last, len(self.cumulative) - 1)]) if last >= 0 else 0.0


def _rounded_law(law: JointLaw, cells: Int[np.ndarray, " edges"], size: int) -> Float[np.ndarray, " grid"]:
    """P(S_d = k d) for k < size."""
    nu = np.zeros((*law.start.shape, size))
    nu[..., 0] = law.start
    for _ in range(law.n_steps):
        spread, after = law.chain.sensitive_step(nu), np.zeros_like(nu)
        for shift in np.unique(cells[cells < size]):
            part = np.ascontiguousarray(spread[..., : size - shift])
            after[..., shift:] += law.chain.private_step(part, (cells == shift).astype(np.float64))
        nu = after
    return nu.sum(axis=(0, 1))
