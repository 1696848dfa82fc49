"""A designed private matrix: its public parameters, its release of counts, and its certificate, computed again whenever it is asked for.

A design is certified because of its parameters, not because it was optimised. There are three adjacencies. "row": a record of one row
changes its category; row totals N_i, the support, and a least count of each row's supported cells are public. With alpha_i added to every
supported cell the smoothed row has N_i + n_i alpha_i records and least cell m_i + alpha_i, and Theorem 6 applies to it as it stands
(`MatrixMechanism`). "any": any record is replaced by any other, in the same row or in another, in every database; one scale and one
pseudo-count for all rows (Theorem 7, `PseudocountMechanism`). "add-remove": any record more or fewer, by a mechanism of that adjacency;
designs use only the other two.

*A design* releases row i of counts as a draw of Dirichlet(s_i (counts_i + alpha_i)) on its public support. It is unbiased for the smoothed
shares Q_i = (counts_i + alpha_i)/(N_i + n_i alpha_i), with concentration k_i = s_i (N_i + n_i alpha_i). A larger alpha_i allows a larger
s_i and pulls the row towards the uniform distribution: `design_matrix` chooses this trade-off between variance and bias. The table `_FORMS`
contains all differences between the mechanisms of the two adjacencies.

*The first paper's rule* for the concentrations (`paper_rule`), at an exact joint (epsilon, delta), is for comparison with a design: k_i = c
k_min,i, k_min,i = 3/(2 eta_i), with one factor c for all rows. Then k_i eta_i = 3c/2 in every row, h_i = 3c/(2 N_i eta_i), and the row with
the smallest cell N_i eta_i costs most. Every other row is more private than necessary, and noisier.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import invalid, require
from dpjax._random import checked_key
from dpjax._rationals import decimal_up, shown
from dpjax._tracing import require_concrete
from dpjax.counts import Neighbours, PseudocountMechanism
from dpjax.design.optimise import require_loss_of_trace
from dpjax.design.stationary import StationaryLaw, stationary_moments
from dpjax.simplex import MatrixMechanism, PublicRows
from dpjax.simplex.rows import check_counts

Adjacency = Literal["row", "any", "add-remove"]
PUBLIC_MODEL = (
    "the parameters were chosen on the model passed as public_model, declared public: had it been computed from the sensitive records,"
    " the choice itself would depend on them and this guarantee would not hold"
)
_RELATIONS: dict[str, Adjacency] = {"replace-within-row": "row", "replace": "any", "add-remove": "add-remove"}
_COVERED = {
    "row": "covered: one record of a row changes its category, among databases with these row totals, this support and these least counts",
    "any": "covered: any record is replaced by any other, in any row, in every database; records outside the support are dropped",
    "add-remove": (
        "covered: any record is added or removed, in any row, in every database; replacing one by another costs more; records outside the"
        " support are dropped"
    ),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
    """A checked claim: the exact delta at epsilon, rounded up, is at most the target; and its assumptions.

    Attributes:
        epsilon: Nats.
        delta: The target.
        exact_delta: The delta of the mechanism, at most the target.
        adjacency: The neighbouring relation of the design.
        statements: What is covered and what is assumed, in words.
    """

    epsilon: float
    delta: float  # the target
    exact_delta: float  # the delta of the mechanism, at most the target
    adjacency: Adjacency
    statements: tuple[str, ...]

    def __str__(self) -> str:
        claim = f"({shown(self.epsilon)}, {shown(self.delta)})-private: exact delta {shown(decimal_up(self.exact_delta))} at this epsilon"
        return "; ".join((claim, *self.statements))


def certify(
    mechanism: MatrixMechanism | PseudocountMechanism, epsilon: float, delta: float, statements: tuple[str, ...] = ()
) -> Certificate:
    """On the host: the certificate of a mechanism at (epsilon, delta).

    Args:
        mechanism: The mechanism to certify.
        epsilon: The target in nats.
        delta: The target.
        statements: Further sentences of the certificate.

    Returns:
        A `Certificate`.

    Raises:
        InputError: The mechanism does not meet the target; the error says which delta it has.

    Example:
        >>> from dpjax.counts import PseudocountMechanism
        >>> from dpjax.design import certify
        >>> certificate = certify(PseudocountMechanism(scale=0.5, pseudocount=10.0), 2.0, 1e-4)
        >>> certificate.exact_delta <= 1e-4
        True
    """
    require_concrete(
        (mechanism, epsilon, delta), "mechanism or target", "certify outside the transformed function: a certificate is text"
    )
    adjacency = _adjacency(mechanism)
    found = float(np.asarray(mechanism.exact_delta(epsilon)))
    if not found <= delta:
        remedy = (
            f"by exact accounting the mechanism does not meet the target: it has delta {found:.6g} at epsilon {float(epsilon):g}"
        )
        invalid("(epsilon, delta)", (float(epsilon), float(delta)), remedy)
    return Certificate(
        epsilon=float(epsilon),
        delta=float(delta),
        exact_delta=found,
        adjacency=adjacency,
        statements=(_COVERED[adjacency], *statements),
    )


def _adjacency(mechanism: Any) -> Adjacency:
    """The word for a mechanism's neighbouring relation. InputError for a mechanism that protects persons, which no certificate covers."""
    neighbours = Neighbours.of(mechanism.adjacency)
    require(
        neighbours.persons is None,
        "mechanism",
        mechanism,
        "a certificate covers records only: pass a mechanism that protects records",
    )
    return _RELATIONS[neighbours.relation]


def paper_rule(*, rows: PublicRows, epsilon: float | int, delta: float) -> tuple[MatrixMechanism, float]:
    """On the host: the paper's rule k_i = c k_min,i at the largest c that meets the joint target by exact accounting, and c.

    Rows that no k brings to the target are withheld, as in `MatrixMechanism.calibrate` with unreachable="withhold". c is 0 if no row can
    meet the target.

    Args:
        rows: The public facts of the matrix.
        epsilon: The target in nats.
        delta: The target.

    Returns:
        The mechanism and the factor c.

    Example:
        >>> import numpy as np
        >>> from dpjax.design import paper_rule
        >>> from dpjax.simplex import PublicRows
        >>> rows = PublicRows(n_records=[98, 50], support=np.ones((2, 5), bool), eta=0.1)
        >>> mechanism, factor = paper_rule(rows=rows, epsilon=1.0, delta=0.01)
        >>> round(factor, 4)
        2.1086
    """
    best = MatrixMechanism.calibrate(rows=rows, epsilon=epsilon, delta=delta, unreachable="withhold")
    drawn = ~(rows.constant | np.asarray(best.withheld))
    factors = (np.asarray(best.k) / np.where(drawn, rows.k_min, 1.0))[drawn]
    factor = float(factors.min()) * (1 - 1e-14) if drawn.any() else 0.0
    k = np.where(drawn, factor * rows.k_min, 1.0)
    return MatrixMechanism(rows=rows, k=k, withheld=best.withheld), factor


_ROUNDING = 1e-13
_OTHER = "it is not the mechanism of these pseudo-counts and this adjacency: make the design with design_matrix"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MatrixDesign:
    """A design that meets (epsilon, delta). Made by `design_matrix`, and checked by the exact accountant whenever one is made.

    Args:
        adjacency: "row" or "any".
        epsilon: The target in nats.
        delta: The target.
        n_records: Row totals, (rows,).
        support: The public support, (rows, n).
        minimum_count: The public least counts, (rows,).
        pseudocount: The pseudo-counts, (rows,).
        mechanism: The mechanism that is certified and drawn from: a `MatrixMechanism` on the smoothed shares ("row") or a
            `PseudocountMechanism` on
            counts ("any").
        loss: The loss that the first-order law predicts on the public model.
        trace: The losses of the search, (starts, steps).
        settled: Whether the search came to rest.

    Raises:
        InputError: The parameters do not meet the target, so that a changed design cannot be made.
    """

    adjacency: Adjacency
    epsilon: float
    delta: float
    n_records: np.ndarray
    support: np.ndarray
    minimum_count: np.ndarray
    pseudocount: np.ndarray
    mechanism: Any  # a MatrixMechanism or a PseudocountMechanism
    loss: float
    trace: np.ndarray = dataclasses.field(repr=False)
    settled: bool

    def __post_init__(self) -> None:
        for name in ("n_records", "support", "minimum_count", "pseudocount", "trace"):
            value = np.array(getattr(self, name))
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        require_loss_of_trace(self.loss, self.trace)
        self._certify_once()

    @property
    def k(self) -> Float[np.ndarray, " rows"]:
        """The concentrations, k_i = s_i (N_i + n_i alpha_i); +inf in rows with one supported category, which are not drawn."""
        return np.where(self._constant, np.inf, self._form.k(self))

    def certify(self) -> Certificate:
        """The guarantee, computed now from the parameters. InputError if they do not meet it."""
        require(bool((self.pseudocount >= 0).all()), "pseudocount", self.pseudocount, "give pseudo-counts of 0 or more")
        require(self._form.fits(self), "mechanism", self.mechanism, _OTHER)
        return certify(self.mechanism, self.epsilon, self.delta, (PUBLIC_MODEL,))

    def _certify_once(self) -> None:
        """Call `certify` unless these parameters, byte for byte, passed it last."""
        arrays = (self.n_records, self.support, self.minimum_count, self.pseudocount, *self._form.public(self.mechanism))
        now = (self.adjacency, self.epsilon, self.delta, type(self.mechanism), *(np.asarray(x).tobytes() for x in arrays))
        if self.__dict__.get("_certified") != now:
            self.certify()
            object.__setattr__(self, "_certified", now)

    @property
    def certificate(self) -> Certificate:
        """The result of `certify()`: computed each time, never stored."""
        return self.certify()

    def smooth(self, counts: Float[np.ndarray, "rows n"] | np.ndarray) -> Float[np.ndarray, "rows n"]:
        """The shares that a release is unbiased for: counts (rows, n) plus the pseudo-counts, on the support, each row divided by its sum."""
        values = np.asarray(counts, dtype=np.float64)
        require(
            values.shape == self.support.shape,
            "counts",
            values.shape,
            f"their shape must equal the shape of the support, {self.support.shape}",
        )
        raised = np.where(self.support, values + self.pseudocount[:, None], 0.0)
        return raised / raised.sum(axis=1, keepdims=True)

    def privatize(self, key: Array, counts: Float[np.ndarray, "rows n"] | np.ndarray) -> Float[Array, "rows n"]:
        """One private matrix, (rows, n).

        A design whose parameters were changed by force after it was certified is certified again, and refused if it fails.

        Args:
            key: One typed JAX key.
            counts: Whole numbers, (rows, n). For "row" they must have the public totals, support and least counts.

        Raises:
            InputError: The counts do not fit, or the certificate fails.
        """
        key = checked_key(key)
        self._certify_once()
        return self._form.privatize(self, key, counts)

    def predict(self, P: Float[np.ndarray, "n n"] | np.ndarray) -> StationaryLaw:
        """The first-order law of the private stationary distribution if the true shares were P, (n, n), with these row totals."""
        with jax.enable_x64(True):
            found = stationary_moments(self.smooth(np.asarray(P, np.float64) * self.n_records[:, None]), self.k)
            return StationaryLaw(*(np.asarray(x) for x in found))

    @property
    def _constant(self) -> np.ndarray:
        return self.support.sum(axis=1) == 1

    @property
    def _form(self) -> _Form:
        form = _FORMS.get(self.adjacency)
        if form is None or type(self.mechanism) is not form.mechanism or _adjacency(self.mechanism) != self.adjacency:
            invalid("mechanism", self.mechanism, _OTHER)
        return form

    def _check(self, counts: np.ndarray) -> None:
        check_counts(counts)
        require(counts.shape == self.support.shape, "counts", counts.shape, f"their shape must be {self.support.shape}")
        outside = np.where(self.support, 0, counts).any(axis=1)
        require(
            not outside.any(),
            "counts",
            np.flatnonzero(outside).tolist(),
            "these rows have records outside the public support: remove them",
        )
        far = counts.sum(axis=1) != self.n_records
        require(
            not far.any(),
            "counts",
            np.flatnonzero(far).tolist(),
            "these rows do not have the public totals of the design: make a design for these totals",
        )
        low = np.where(self.support, counts, np.inf).min(axis=1) < self.minimum_count
        require(
            not low.any(),
            "counts",
            np.flatnonzero(low).tolist(),
            "these rows have a cell below the public least count: make a design with a smaller minimum_count",
        )


class _Form(NamedTuple):
    """The differences between the mechanisms of a design.

    k: the concentrations of rows that are drawn. fits: whether the design's mechanism matches its public parameters. public: the
    mechanism's own parameters. privatize: one private matrix of a design, for a key and counts.
    """

    mechanism: type
    k: Callable[[MatrixDesign], np.ndarray]
    fits: Callable[[MatrixDesign], bool]
    public: Callable[[Any], tuple[Any, ...]]
    privatize: Callable[[MatrixDesign, Array, Any], Float[Array, "rows n"]]


def _fits_rows(design: MatrixDesign) -> bool:
    rows, own = smoothed_rows(design.n_records, design.support, design.minimum_count, design.pseudocount), design.mechanism
    same = all(np.array_equal(getattr(rows, x), getattr(own.rows, x)) for x in ("n_records", "support", "eta"))
    return same and not np.any(own.withheld)


def _draw_rows(design: MatrixDesign, key: Array, counts: Any) -> Float[Array, "rows n"]:
    design._check(np.asarray(counts))
    return design.mechanism.privatize(key, design.smooth(counts))


def _scaled(design: MatrixDesign) -> np.ndarray:
    return float(design.mechanism.scale) * (design.n_records + design.support.sum(axis=1) * design.pseudocount)


def _fits_counts(design: MatrixDesign) -> bool:
    return bool((design.pseudocount[~design._constant] == float(design.mechanism.pseudocount)).all())


def _draw_counts(design: MatrixDesign, key: Array, counts: Any) -> Float[Array, "rows n"]:
    drawn = design.mechanism.privatize(key, np.asarray(counts), design.support)
    return jnp.where(jnp.asarray(design._constant)[:, None], jnp.asarray(design.support, drawn.dtype), drawn)


_FORMS = {
    "row": _Form(
        mechanism=MatrixMechanism,
        k=lambda design: np.asarray(design.mechanism.k),
        fits=_fits_rows,
        public=lambda m: (m.k, m.withheld, m.rows.n_records, m.rows.support, m.rows.eta),
        privatize=_draw_rows,
    ),
    "any": _Form(
        mechanism=PseudocountMechanism,
        k=_scaled,
        fits=_fits_counts,
        public=lambda m: (m.scale, m.pseudocount),
        privatize=_draw_counts,
    ),
}


def smoothed_rows(n_records: np.ndarray, support: np.ndarray, minimum_count: np.ndarray, pseudocount: np.ndarray) -> PublicRows:
    """The public facts of the smoothed rows: N_i + n_i alpha_i records and the floor m_i + alpha_i, as a share, lowered by its rounding."""
    n = support.sum(axis=1)
    records = n_records + n * pseudocount
    floor = np.where(n == 1, 0.5, (minimum_count + pseudocount) / records * (1 - _ROUNDING))
    return PublicRows(n_records=records, support=support, eta=floor)
