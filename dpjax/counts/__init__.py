"""Mechanisms on a table of counts: one protocol, one registry, and all implementations.

- `protocol`: the interface of a mechanism and of the exact sampler of a release; the registry
- `neighbours`: the neighbouring relation and its protected unit, as one value
- `pseudocount`: Dirichlet rows with a public pseudo-count (Theorem 7); `accountant` gives their privacy, for records and for persons
- `dirichlet`: the Dirichlet rows of the first paper, with public totals and floor
- `discrete_laplace`, `discrete_gaussian`: noisy counts; `noise` is their common part
- `uniform`: the guess that needs no data
- `postprocess`: from noisy counts to the simplex; expected errors, exact or from public numbers
- `composition`: repeated releases

To add a mechanism, write one file and register it with one line: docs, "Add a mechanism on counts".
"""

from dpjax.counts.accountant import least_pseudocount
from dpjax.counts.composition import composed_delta, composed_epsilon
from dpjax.counts.neighbours import Neighbours, PersonBound
from dpjax.counts.noise import NoiseMechanism, NoiseSampler
from dpjax.counts.pseudocount import PseudocountMechanism  # the order of these lines is the order of the registry

from dpjax.counts.discrete_laplace import DiscreteLaplaceMechanism  # isort: skip
from dpjax.counts.discrete_gaussian import DiscreteGaussianMechanism  # isort: skip
from dpjax.counts.dirichlet import DirichletRows  # isort: skip
from dpjax.counts.uniform import UniformGuess  # isort: skip
from dpjax.counts.protocol import (
    CountMechanism,
    ExactSampler,
    Options,
    Parameter,
    Planning,
    Target,
    calibrated,
    exact_sampler,
    mechanism,
    names,
    register,
    unregister,
)

__all__ = [
    "CountMechanism",
    "DirichletRows",
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "ExactSampler",
    "Neighbours",
    "NoiseMechanism",
    "NoiseSampler",
    "Options",
    "Parameter",
    "PersonBound",
    "Planning",
    "PseudocountMechanism",
    "Target",
    "UniformGuess",
    "calibrated",
    "composed_delta",
    "composed_epsilon",
    "exact_sampler",
    "least_pseudocount",
    "mechanism",
    "names",
    "register",
    "unregister",
]
