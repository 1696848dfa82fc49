"""Tails of the empirical entropy H_n of the private trajectory of a random sensitive one, and the typical set (paper B, Theorem 4).

S = n H_n = sum_{t<n} W(s'_t, s'_{t+1}) on the joint chain Z_t = (s_t, s'_t); g_t(z) = E[W_t + ... + W_{n-1} | Z_t = z]. For nu > 0,

    4c  (Azuma)      P(H_n >= E H_n + nu) <= exp(-2 n^2 nu^2 / sum_t r_t^2),
        r_t = the largest range, over z, of W(s', o) + g_{t+1}(s+, o) over what can follow z; and first the range of g_0 at the start;
    4d  (Chernoff)   P(H_n >= h) <= min_theta e^{-theta n h} E e^{theta S}, E by a forward pass with kernels K e^{theta W};
    4e  (Cantelli)   P(H_n >= E H_n + nu) <= Var / (Var + nu^2), Var = Var H_n, exactly;
    4f  (Paulin)     P(H_n >= E H_n + nu) <= exp(-2 n^2 nu^2 / ((4n - 2) (W_max - W_min)^2 tau_min)), tau_min of `joint_mixing`;

and the same below the mean. The typical set of width eta is |H_n - H(S)| <= eta: its probability is at least 1 minus a bound above
and a bound below.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.optimize
from jaxtyping import Float

from dpjax._errors import require_number
from dpjax._real import real_array
from dpjax.trajectory.bound import Bound, upper
from dpjax.trajectory.joint import JointLaw
from dpjax.trajectory.joint_mixing import mixing_factor
from dpjax.trajectory.neighbourhoods import one_step_extremes

_LARGEST_EXPONENT = 300.0  # theta (W_max - W_min)
_LEAST_FACTOR = 4.0  # of t ((2 - e) / (1 - e))^2 over t >= 1 and 0 <= e < 1
_MEAN_ERROR = 1e-12  # relative error granted to E H_n and Var H_n


class EntropyConcentration:
    """Bounds on P(H_n >= E H_n + nu) and, with `below`, on P(H_n <= E H_n - nu), for the horizon and start of `law`.

    nu: nats a transition, a number or an array. A deviation of 0 or less gives a bound of 1 or more, which is vacuous.
    """

    def __init__(self, law: JointLaw) -> None:
        self.law = law
        self.mean = law.expected_entropy

    def azuma(self, nu: Any) -> Bound:
        """Theorem 4c; the same on either side."""
        deviation = self._deviation(nu)
        total = float((self.ranges**2).sum())
        exponent = np.where(deviation > 0, 2 * (self.law.n_steps * deviation) ** 2, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return upper(np.exp(-np.where(exponent > 0, exponent / total, 0.0)), 1.0)

    def cantelli(self, nu: Any) -> Bound:
        """Theorem 4e; the same on either side."""
        deviation = self._deviation(nu)
        variance = max(self.law.variance_entropy, 0.0) * (1 + _MEAN_ERROR) + _MEAN_ERROR * self.mean**2
        squared = np.where(deviation > 0, deviation, 0.0) ** 2
        return upper(np.where(squared > 0, variance / np.where(squared > 0, variance + squared, 1.0), 1.0), 1.0)

    def paulin(self, nu: Any, tau_min: float | int | None = None) -> Bound:
        """Theorem 4f; the same on either side.

        tau_min: of the joint chain, never below 4, 9 t_mix will do; found for chains of up to 32 states, ValueError for a larger one without it.
        """
        deviation, n = self._deviation(nu), self.law.n_steps
        found = mixing_factor(self.law.chain, n) if tau_min is None else tau_min
        mend = "give the mixing factor of the joint chain, in steps: no chain has one below 4"
        require_number(found, "tau_min", mend, lambda x: x >= _LEAST_FACTOR)
        exponent = np.where(deviation > 0, 2 * (n * deviation) ** 2, 0.0)
        spread = max(float(np.ptp(self.law.chain.lengths)), np.finfo(float).tiny)
        with np.errstate(over="ignore"):
            return upper(np.exp(-exponent / (4 * n - 2) / spread / spread / found), 1.0)

    def chernoff(self, nu: Any, below: bool = False) -> Bound:
        """Theorem 4d. Costs some 30 forward passes for each nu."""
        deviation = self._deviation(nu)
        found = [self._chernoff(float(one), -1 if below else 1) if one > 0 else 1.0 for one in deviation.reshape(-1)]
        return upper(np.array(found).reshape(deviation.shape), 1.0)

    def best(self, nu: Any, below: bool = False) -> Bound:
        """The smallest of the three."""
        value = np.minimum(np.minimum(self.azuma(nu).value, self.cantelli(nu).value), self.chernoff(nu, below).value)
        return Bound(value, np.asarray(~(value < 1)))

    @functools.cached_property
    def ranges(self) -> Float[np.ndarray, " steps"]:
        """The range of g_0 over the support of the start, then r_0 .. r_{n-1}, nats."""
        chain, found = self.law.chain, []
        g = np.zeros_like(self.law.start)
        for _ in range(self.law.n_steps):
            low, high = one_step_extremes(chain.graph.edges, g, chain.graph.edges.lengths)
            found.append(float((high - low).max()))
            g = chain.backward(g) + chain.P @ chain.mean_lengths
        found.append(float(np.ptp(g[self.law.start > 0])))
        return np.array(found[::-1])

    def log_moment(self, theta: float) -> float:
        """log E e^{theta S}; theta times the range of the edge lengths must be at most 300 in size."""
        chain, lengths = self.law.chain, self.law.chain.lengths
        mend = f"give at most 300/{np.ptp(lengths):.4g} in size"
        require_number(theta, "theta", mend, lambda x: abs(x) * np.ptp(lengths) <= _LARGEST_EXPONENT)
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
    """A lower bound on P(|H_n - H(S)| <= eta), eta in nats a transition, H(S) the entropy rate; 0 where the bounds say nothing.

    The first state's own probability is left out, as in H_n: with a public start it is 1.
    """
    require_number(eta, "eta", "give a positive width in nats a transition", lambda x: x > 0)
    found, rate = EntropyConcentration(law), law.chain.mechanism.chain.entropy_rate()
    above = found.best(rate + eta - found.mean).value
    below = found.best(found.mean - (rate - eta), below=True).value
    return max(0.0, float(1 - above - below))
