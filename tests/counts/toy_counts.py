"""A mechanism on counts in one file with one registration: the example of docs/extending-counts.md.

Rounded Laplace noise: discrete Laplace noise whose scale is the least whole number b >= L1 / epsilon. Pure, and attained at L1 / b.
"""

import dataclasses
import math
from fractions import Fraction

import numpy as np

from dpjax import _exact
from dpjax.counts import NoiseMechanism, NoiseSampler, Parameter, register
from dpjax.counts.postprocess import checked_epsilon


@register
@dataclasses.dataclass(frozen=True, kw_only=True)
class Toy(NoiseMechanism):
    """counts -> counts + discrete Laplace noise of a whole scale -> the simplex."""

    b: int
    adjacency: object = "replace"
    postprocess: str = "floor"

    name = "toy"
    title = "toy, floored"
    spends_delta = False
    PARAMETERS = {"toy_scale": Parameter("whole scale of the toy's noise", "records")}  # noqa: RUF012

    @classmethod
    def calibrate(cls, *, epsilon, delta=0.0, adjacency="replace", postprocess="floor"):
        checked_epsilon(epsilon)
        one = cls(b=1, adjacency=adjacency, postprocess=postprocess)
        return dataclasses.replace(one, b=math.ceil(one.neighbours.l1 / epsilon))

    @property
    def parameters(self):
        return {"toy_scale": float(self.b)}

    def pmf(self, reach):
        return np.tanh(0.5 / self.b) * np.exp(-np.abs(np.arange(-reach, reach + 1.0)) / self.b)

    @classmethod
    def released(cls, facts):
        return cls(b=int(facts["noise_scale"]))

    def exact_epsilon(self, delta=0.0):
        return self.neighbours.l1 / self.b

    def exact_delta(self, epsilon):
        return 0.0 if epsilon * self.b >= self.neighbours.l1 else 1.0

    def exact_sampler(self, *, epsilon, delta):
        return ToySampler(epsilon=epsilon, delta=0.0, parameter=Fraction(self.b), neighbours=self.neighbours)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToySampler(NoiseSampler):
    """Counts plus exact noise of the whole scale `parameter`."""

    name = "toy"
    words = ("noise_scale", "scale")

    @property
    def mechanism(self):
        return Toy(b=int(self.parameter), adjacency=self.neighbours)

    @property
    def delta_spent(self):
        return self.mechanism.exact_delta(self.epsilon)

    @property
    def accountant(self):
        return "exact, pure: L1 sensitivity over a whole scale"

    def draw_one(self):
        return _exact.discrete_laplace(self.parameter)
