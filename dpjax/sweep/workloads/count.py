"""The mechanisms on a whole count matrix c that a sweep compares at one target (epsilon, delta), and how each is drawn.

name                private shares of row i                                                       guarantee at the target
pseudocount         Dirichlet(s (c_i + alpha)), s the largest that meets it     (Theorem 7)       exact delta
discrete-laplace    c_i + Z, P(Z = z) ~ e^(-|z|/b), then post-processed                           delta = 0
discrete-gaussian   c_i + Z, P(Z = z) ~ e^(-z^2/(2v)), then post-processed                        exact delta

Post-processing of noisy counts: "floor", max(c_i + Z, 1/2) divided by its sum, or "project", the Euclidean projection; a row whose noisy
counts are all 0 or less is uniform under "floor". Last, for every mechanism and every draw, the private row p becomes

    p + w (u - p),   u the uniform law on the row's public support, w public and small,

so that every transition of the support has a positive probability: a projection that sets cells to 0, or a Dirichlet share that
underflows, leaves no chain without a stationary law. None of this reads the counts again: it costs no privacy.

The least pseudo-count (`dpjax.counts.pseudocount`) is the one up to which no scale meets the target. It is a function of epsilon,
delta and the adjacency alone.

`count-matrix`: a whole count matrix released by one mechanism, at a target (epsilon, delta).

[mechanism] holds name ("pseudocount", "discrete-laplace", "discrete-gaussian"), epsilon and, but for the discrete Laplace, delta.
adjacency: "replace" (the default) or "add-remove" (one record
more or fewer). support: "all" (the default) or "observed" (the transitions seen are declared
public). postprocess of noisy counts: "floor" (the default) or "project". The pseudo-count is given as a number, `pseudocount`, or as a
multiple of the least that reaches the target, `pseudocount_factor`. uniform_weight w: see `count_kinds`. Every key may be an axis, `name` too; then
a mechanism leaves the keys that it has no use for.

Each cell stores the exact delta of its mechanism, its public parameters and the true stationary law, and takes the measures of
`matrix_measures`. These depend on the counts: the results are experiments, not releases.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import pydantic
from jaxtyping import Array, Bool, Float

from dpjax._errors import invalid, require
from dpjax.counts import DiscreteGaussianMechanism, DiscreteLaplaceMechanism, PseudocountMechanism, least_pseudocount
from dpjax.counts.discrete_gaussian import gaussian_noise, tail_table
from dpjax.counts.discrete_laplace import laplace_noise
from dpjax.counts.postprocess import POST_PROCESSING
from dpjax.simplex import dirichlet
from dpjax.sweep.grid import Table
from dpjax.sweep.workload import Label, Prepared, Quantity, Scalar
from dpjax.sweep.workloads._common import MEASURES, STATIONARY, KnownChain, cell_table, known_chain, measured, shown, shown_key

Name = Literal["pseudocount", "discrete-laplace", "discrete-gaussian"]
USES: dict[str, tuple[str, ...]] = {
    "pseudocount": ("delta", "pseudocount", "pseudocount_factor"),
    "discrete-laplace": ("postprocess",),
    "discrete-gaussian": ("delta", "postprocess"),
}
CountMechanism = PseudocountMechanism | DiscreteLaplaceMechanism | DiscreteGaussianMechanism
PUBLIC = {
    "dirichlet_scale": Quantity(long_name="scale s of the Dirichlet draw; inf where noise is added instead and nothing is redrawn"),
    "pseudocount": Quantity(long_name="pseudo-count alpha; 0 where none is added", units="records"),
    "laplace_scale": Quantity(long_name="scale b of the discrete Laplace noise; 0 where there is none", units="records"),
    "gaussian_variance": Quantity(long_name="variance v of the discrete Gaussian noise; 0 where there is none", units="records^2"),
}
TAIL = 2**15  # the least width of a Gaussian's table, so that a grid compiles once
_NOISE = {"discrete-laplace": laplace_noise, "discrete-gaussian": gaussian_noise}
_SMALLEST, _LARGEST = 1e-6, 1e9  # pseudo-count


class Target(NamedTuple):
    """What a mechanism is to meet. delta is 0 for the discrete Laplace."""

    epsilon: float
    delta: float
    adjacency: Literal["replace", "add-remove"]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CountLaw:
    """A mechanism on counts, traced: counts (n, n); uniform (n, n), the uniform law on each row's support; weight, w above.

    parameter: the Dirichlet concentrations (n, n), the scale of the Laplace noise or the Gaussian's table of tails. Shapes are not annotated:
    on its way to a device every leaf has an axis of blocks in front.
    """

    counts: Any
    uniform: Any
    weight: Any
    parameter: Any
    name: Name = dataclasses.field(metadata={"static": True})
    postprocess: Literal["floor", "project"] = dataclasses.field(metadata={"static": True})


def pseudocount_mechanism(target: Target, *, pseudocount: float | None, factor: float | None) -> PseudocountMechanism:
    """Theorem 7's mechanism at this pseudo-count, or at `factor` times the least."""
    epsilon, delta, adjacency = target
    alpha = pseudocount
    if factor is not None:
        least = least_pseudocount(**target._asdict())
        require(least < _LARGEST, "(epsilon, delta)", (epsilon, delta), "no pseudo-count reaches it: choose another pair")
        alpha = max(least, _SMALLEST) * factor
    assert alpha is not None, "one of the two is given"
    return PseudocountMechanism.calibrate(epsilon=epsilon, delta=delta, pseudocount=alpha, adjacency=adjacency)


def public_numbers(mechanism: CountMechanism) -> dict[str, float]:
    """PUBLIC's quantities."""
    numbers = {"dirichlet_scale": math.inf, "pseudocount": 0.0, "laplace_scale": 0.0, "gaussian_variance": 0.0}
    if isinstance(mechanism, PseudocountMechanism):
        return numbers | {"dirichlet_scale": float(mechanism.scale), "pseudocount": float(mechanism.pseudocount)}
    if isinstance(mechanism, DiscreteLaplaceMechanism):
        return numbers | {"laplace_scale": float(mechanism.scale)}
    return numbers | {"gaussian_variance": float(mechanism.variance)}


def count_law(
    mechanism: CountMechanism,
    counts: np.ndarray,
    support: Bool[np.ndarray, "n n"],
    *,
    weight: float,
    dtype: np.dtype,
) -> CountLaw:
    """The mechanism's law on these counts, NumPy arrays of this dtype."""
    name: Name
    postprocess: Literal["floor", "project"] = "floor"
    if isinstance(mechanism, PseudocountMechanism):
        name, parameter = "pseudocount", np.where(support, float(mechanism.scale) * (counts + float(mechanism.pseudocount)), 0.0)
    else:
        postprocess = "project" if mechanism.postprocess == "project" else "floor"
        if isinstance(mechanism, DiscreteLaplaceMechanism):
            name, parameter = "discrete-laplace", np.asarray(mechanism.scale)
        else:
            tail = tail_table(float(mechanism.variance), dtype)
            name, parameter = "discrete-gaussian", np.pad(tail, (0, max(0, TAIL - len(tail))))
    return CountLaw(
        counts=counts.astype(dtype),
        uniform=(support / support.sum(axis=1, keepdims=True)).astype(dtype),
        weight=np.asarray(weight, dtype),
        parameter=parameter.astype(dtype),
        name=name,
        postprocess=postprocess,
    )


def draw(key: Array, law: CountLaw, first: Any, n: int) -> Float[Array, "draws n n"]:
    """Private matrices first, ..., first + n - 1, each fixed by the key and its number; pure. float64 needs x64 on."""
    start, uniform = jnp.asarray(first, jnp.uint32), jnp.asarray(law.uniform)[None]
    if law.name == "pseudocount":
        shares = dirichlet(key, law.parameter, n, start)
    else:
        noise = _NOISE[law.name]
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(start + jnp.arange(n, dtype=jnp.uint32))
        noisy = law.counts[None] + jax.vmap(lambda k: noise(k, law.counts, law.parameter))(keys)
        shares = POST_PROCESSING[law.postprocess](noisy, uniform > 0)
    return shares + law.weight * (uniform - shares)


AXES = {
    "name": Label(long_name="mechanism"),
    "epsilon": Label(long_name="target epsilon", units="nats"),
    "delta": Label(long_name="target delta"),
    "adjacency": Label(long_name="what one record may do"),
    "support": Label(long_name="where the public support comes from"),
    "postprocess": Label(long_name="what makes shares of noisy counts"),
    "pseudocount": Label(long_name="pseudo-count alpha", units="records"),
    "pseudocount_factor": Label(long_name="pseudo-count as a multiple of the least that reaches the target"),
    "uniform_weight": Label(long_name="weight of the uniform law in every private row"),
    "precision": Label(long_name="type of the draws"),
}
EXACT = {
    "at_epsilon": Quantity(long_name="target epsilon, at which the exact delta is stated", units="nats"),
    "at_delta": Quantity(long_name="target delta; 0 for the discrete Laplace"),
    "exact_delta": Quantity(long_name="delta at that epsilon by the mechanism's exact accountant"),
    **PUBLIC,
    **STATIONARY,
}
_SUPPORTS = {
    "all": "support: all pairs of states, public",
    "observed": "support: observed in the data, treated as public by the user's declaration",
}
_WHOLE = 2**24  # float32 holds every whole number up to here


class CountTable(Table):
    """[mechanism] of `count-matrix`, and of one cell once its axes are put in."""

    name: Name
    epsilon: float = pydantic.Field(gt=0, allow_inf_nan=False)
    delta: float | None = pydantic.Field(default=None, gt=0, lt=1)
    adjacency: Literal["replace", "add-remove"] = "replace"
    support: Literal["all", "observed"] = "all"
    postprocess: Literal["floor", "project"] = "floor"
    pseudocount: float | None = pydantic.Field(default=None, ge=1e-6, le=1e12)
    pseudocount_factor: float | None = pydantic.Field(default=None, gt=1, allow_inf_nan=False)
    uniform_weight: float = pydantic.Field(default=1e-9, ge=1e-20, lt=1)
    precision: Literal["float32", "float64"] = "float32"


class Declared(NamedTuple):
    """What is public of the counts, in words."""

    statement: str


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class CountWorkload(KnownChain):
    """See the module."""

    name = "count-matrix"
    law_version = 2
    axes = AXES
    measures = MEASURES
    exact = EXACT

    def check(self, cell: Mapping[str, Scalar]) -> None:
        """The cell's table; whether a scale or a variance meets the target is left to `prepare`."""
        self._table(cell)

    def rows(self, cell: Mapping[str, Scalar]) -> Declared:
        """What the cell declares public of the rows."""
        return Declared(f"{_SUPPORTS[self._table(cell).support]}; counts and row totals: private")

    def mechanism(self, cell: Mapping[str, Scalar]) -> CountMechanism:
        """The cell's mechanism; ValueError where none of its kind meets the target."""
        table = self._table(cell)
        target = Target(table.epsilon, table.delta or 0.0, table.adjacency)
        if table.name == "pseudocount":
            return pseudocount_mechanism(target, pseudocount=table.pseudocount, factor=table.pseudocount_factor)
        if table.name == "discrete-laplace":
            return DiscreteLaplaceMechanism(epsilon=table.epsilon, adjacency=table.adjacency, postprocess=table.postprocess)
        return DiscreteGaussianMechanism.calibrate(**target._asdict(), postprocess=table.postprocess)

    def prepare(self, cell: Mapping[str, Scalar]) -> Prepared:
        """The mechanism's law on the counts, and what it promises."""
        table, mechanism = self._table(cell), self.mechanism(cell)
        P, pi = self.truth
        dtype = np.dtype(table.precision)
        support = self.counts > 0 if table.support == "observed" else np.ones(self.counts.shape, dtype=bool)
        law = count_law(mechanism, self.counts, support, weight=table.uniform_weight, dtype=dtype)
        with jax.enable_x64(dtype == np.float64):
            one = shown(draw(shown_key(cell), law, 0, 1))
        exact = {
            "at_epsilon": table.epsilon,
            "at_delta": table.delta if "delta" in USES[table.name] else 0.0,
            "exact_delta": float(mechanism.exact_delta(table.epsilon)),
            **public_numbers(mechanism),
            "stationary": pi,
            "stationary_draw": one,
        }
        return Prepared(params={"law": law, "P": P.astype(dtype), "pi": pi.astype(dtype)}, exact=exact)

    def measure(self, key: jax.Array, params: Any, first: Any, n: int) -> Mapping[str, jax.Array]:
        """What private matrices first, ..., first + n - 1 do to the stationary distribution and to the ergodicity coefficient."""
        with jax.enable_x64(params["P"].dtype == jnp.float64):
            return measured(draw(key, params["law"], first, n), params["P"], params["pi"])

    def _table(self, cell: Mapping[str, Scalar]) -> CountTable:
        table = cell_table(CountTable, self.table, cell)
        uses = USES[table.name]
        if "name" not in cell:
            _refuse_unused(table.name, {**self.table, **cell})
        if "delta" in uses and table.delta is None:
            invalid(
                "mechanism.delta",
                None,
                f"{table.name} meets epsilon together with delta: give it, there or as an axis",
                problem="is not given",
            )
        if table.name == "pseudocount" and (table.pseudocount is None) == (table.pseudocount_factor is None):
            both = {"pseudocount": table.pseudocount, "pseudocount_factor": table.pseudocount_factor}
            invalid("mechanism", both, "give pseudocount, or pseudocount_factor such as 1.5, and not both")
        largest = self.counts.max()
        fits = table.precision == "float64" or largest < _WHOLE
        require(fits, "mechanism.precision", table.precision, f'a cell has {largest:,} records, too many for it: give "float64"')
        return table


def _refuse_unused(name: Name, given: Mapping[str, Any]) -> None:
    """A key that only other mechanisms use is a mistake where `name` is no axis."""
    for key in sorted({key for uses in USES.values() for key in uses} - set(USES[name])):
        if key in given:
            users = " and ".join(other for other in get_args(Name) if key in USES[other])
            invalid(f"mechanism.{key}", given[key], f"{name} has no use for it, {users} would: leave it out")


def build(dataset: Any, mechanism: Mapping[str, Any]) -> CountWorkload:
    """The workload on a data set of square counts, irreducible."""
    return known_chain(CountWorkload, CountWorkload.name, dataset, mechanism)
