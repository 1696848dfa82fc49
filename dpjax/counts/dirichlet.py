"""The Dirichlet rows of the first paper: row totals N_i public, every share at least a public floor, row i ~ Dirichlet(k_i C_i).

The guarantee is among databases with these row totals whose shares are all at least the floor. It hides in which cell of its row a record
lies. A record that changes rows changes two public totals and is not hidden. Rows that no k_i brings to the target are withheld: released
as the uniform distribution on their public support, which costs no privacy.

*Simulated* (`DirichletMechanism` of `dpjax.simplex` for each row, composed in parallel): the totals, and without a floor each row's
smallest share, are taken from the table and declared public.

*For a release*, by explicit choice only: whether the data satisfy the floor eta is not checked, because a check would reveal something
about the data. k_i is the largest that Theorem 6's exact accountant allows, rounded down to 12 bits and verified.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pydantic
from jaxtyping import Array, Bool, Float

from dpjax._errors import invalid, require
from dpjax._random import checked_key
from dpjax._rationals import shown, verified
from dpjax._tracing import conditions, frozen_pytree, is_traced, nan_unless
from dpjax.counts.neighbours import Neighbours
from dpjax.counts.postprocess import (
    checked_counts,
    dirichlet_error,
    dirichlet_errors,
    plain_table,
    reference_shares,
    uniform_error,
    uniform_rows,
)
from dpjax.counts.protocol import AuditPair, CountMechanism, Errors, ExactSampler, Law, Options, Planning, Target, register
from dpjax.counts.pseudocount import EXACT, URN_CELLS, Urn
from dpjax.simplex.gamma import dirichlet
from dpjax.simplex.matrix import MatrixMechanism
from dpjax.simplex.rows import PublicRows

WITHIN_ROW = Neighbours("replace-within-row")


class DirichletOptions(Options):
    """The floor of every share."""

    eta: float | None = pydantic.Field(
        default=None, gt=0, le=0.5, title="public floor of every share; default: the smallest share of each row"
    )


@frozen_pytree("_matrix", "eta")
class DirichletRows(CountMechanism):
    """The mechanism counts -> rows Dirichlet(k_i C_i) on the public rows of `matrix`; withheld and constant rows are uniform.

    Made by `on_table`, because the public facts of a table determine k_i. A pytree of the matrix mechanism and the floor.

    Args:
        matrix: The mechanism on the public rows. None for a release, whose k_i are found once the totals are known.
        eta: The public floor of every share, for a release.

    Source:
        Algorithm 2 of the Dirichlet-mechanism paper; Theorem 6 for the accounting.

    Example:
        >>> import numpy as np
        >>> from dpjax.counts import DirichletRows, Neighbours, Target
        >>> counts = np.array([[40, 60], [30, 70]])
        >>> m = DirichletRows.on_table(Target(1.0, 0.01, Neighbours("replace-within-row")), counts, counts > 0)
        >>> bool(m.exact_delta(1.0) <= 0.01)
        True
    """

    name: ClassVar[str] = "dirichlet"
    audited: ClassVar[bool] = False
    title: ClassVar[str] = "Dirichlet, paper's form"
    ours: ClassVar[bool] = True
    whole_domain: ClassVar[bool] = False
    OPTIONS: ClassVar[type[Options]] = DirichletOptions

    adjacency = WITHIN_ROW

    def __init__(self, matrix: MatrixMechanism | None = None, *, eta: float | None = None) -> None:
        self._matrix, self.eta = matrix, eta

    @property
    def matrix(self) -> MatrixMechanism:
        """The mechanism on the public rows. InputError if no table has set them."""
        if self._matrix is None:
            invalid("rows", None, "k depends on the public rows of a table: make the mechanism with on_table")
        self._matrix.check()
        return self._matrix

    @classmethod
    def calibrate(cls, *, epsilon: Any, delta: Any, adjacency: Neighbours | str = WITHIN_ROW, **options: Any) -> DirichletRows:
        """The mechanism on public rows with the largest k_i that meet the joint (epsilon, delta); all other rows are withheld.

        Args:
            epsilon: The target in nats.
            delta: The target.
            adjacency: "replace-within-row".
            options: `rows`, the public facts, as a `PublicRows`.
        """
        rows = options.get("rows")
        if rows is None:
            invalid("rows", None, "k depends on the public rows of a table: pass them as PublicRows, or use on_table")
        return cls(MatrixMechanism.calibrate(rows=rows, epsilon=epsilon, delta=delta, unreachable="withhold"))

    @classmethod
    def takes(cls, counts: np.ndarray, support: np.ndarray) -> bool:
        """Whether no cell of the support is empty; an empty cell has no floor."""
        return bool((counts[support] > 0).all())

    @classmethod
    def on_table(
        cls, target: Target, counts: np.ndarray, support: np.ndarray, *, eta: float | None = None, **options: Any
    ) -> DirichletRows:
        """The mechanism on this table, whose totals are declared public. Without `eta` each row's smallest share is declared public too."""
        _within(target.neighbours)
        require(
            cls.takes(counts, support),
            "support",
            None,
            "a cell is empty, so it has no floor: use the observed support",
            problem="is all",
        )
        rows = PublicRows.from_counts(counts, support=support, eta="smallest share" if eta is None else eta)
        return cls.calibrate(epsilon=target.epsilon, delta=target.delta, rows=rows)

    @classmethod
    def planned(cls, target: Target, planning: Planning, *, eta: float | None = None, **options: Any) -> DirichletRows:
        """The mechanism for a release at this floor."""
        _within(target.neighbours)
        floor = "pass the public floor that every share is assumed to reach"
        require(eta is not None, "eta", None, floor, problem="is not given")
        return cls(eta=eta)

    def exact_sampler(self, *, epsilon: float, delta: float) -> ExactDirichlet:
        """The sampler at this floor. `fitted` finds its k_i."""
        return ExactDirichlet(epsilon=epsilon, delta=delta, eta=float(self.eta or 0))

    @property
    def parameters(self) -> Mapping[str, float]:
        """No numbers: k differs from row to row."""
        return {}

    def exact_delta(self, epsilon: Any) -> Any:
        """The joint delta max_i delta_i(epsilon), exact and rounded up."""
        return self.matrix.exact_delta(epsilon)

    def exact_epsilon(self, delta: Any) -> Any:
        """The joint epsilon max_i epsilon_i(delta), exact and rounded up."""
        return self.matrix.exact_epsilon(delta)

    def privatize(self, key: Array, counts: Any, support: Any = None) -> Float[Array, "*batch n"]:
        """Private shares of each row, (*batch, rows, n), on the public support of the rows. A simulation: never publish it.

        Args:
            key: One typed JAX key.
            counts: Whole numbers, (*batch, rows, n).
            support: Not used: the public rows determine the support.
        """
        key = checked_key(key)
        counts, support = plain_table(counts, support)
        values = checked_counts(counts)
        shares = values / values.sum(axis=-1, keepdims=True)
        with conditions() as held:
            k, still, uniform = self._public()
        public = jnp.broadcast_to(jnp.asarray(uniform, values.dtype), values.shape)
        drawn = dirichlet(key, jnp.where(still, public, jnp.asarray(k, values.dtype)[:, None] * shares), 1)[0]
        return nan_unless([*map(jnp.all, held)], jnp.where(still, public, drawn))

    def law(self, counts: np.ndarray, support: Bool[np.ndarray, "rows n"], dtype: np.dtype) -> Law:
        """The shapes of the rows, which rows are not drawn, and their uniform distribution."""
        _, still, uniform = self._public()
        return Law((self._shapes(counts).astype(dtype), still, uniform.astype(dtype)), _draw)

    def expected_errors(self, counts: np.ndarray, support: np.ndarray) -> Errors:
        """The errors of Dirichlet rows, in closed form, and of the uniform rows."""
        shares = counts / counts.sum(axis=1, keepdims=True)
        _, still, uniform = self._public()
        kl, tv = dirichlet_errors(shares, np.where(still, uniform, self._shapes(counts)))
        fixed_kl, fixed_tv = uniform_rows(shares, support)
        return Errors(np.where(still[:, 0], fixed_kl, kl), np.where(still[:, 0], fixed_tv, tv))

    @property
    def note(self) -> str:
        """The share of the table that is withheld."""
        withheld = np.asarray(self.matrix.withheld)
        records = np.asarray(self.matrix.rows.n_records)
        share = float((records / records.sum())[withheld].sum())
        return f"{int(withheld.sum())} of {len(withheld)} rows withheld, holding {share:.1%} of the records"

    def audit_pair(self) -> AuditPair | None:
        """None: `dpjax.audit.matrix_target` audits the rows at the floor, where the claim is tight."""
        return None

    def _shapes(self, counts: np.ndarray) -> Float[np.ndarray, "rows n"]:
        """The shapes of the rows; 0 outside the support."""
        shares = counts / counts.sum(axis=1, keepdims=True)
        return np.where(self.matrix.rows.support, np.asarray(self.matrix.k)[:, None] * shares, 0.0)

    def _public(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """k (rows,), which rows are not drawn (rows, 1), and the uniform rows (rows, n)."""
        m = self.matrix
        still = (m.rows.constant | np.asarray(m.withheld))[:, None]
        return m.k if is_traced(m.k) else np.asarray(m.k), still, m.rows.support / m.rows.n_categories[:, None]


register(DirichletRows, "paper")


def _draw(key: Array, parameters: Any, counts: Any, support: Any, first: Any, n: int) -> Array:
    """The private tables first, ..., first + n - 1 of Dirichlet rows, some of them fixed."""
    shapes, still, uniform = parameters
    return jnp.where(still, uniform, dirichlet(key, jnp.where(still, uniform, shapes), n, first))


def _within(neighbours: Neighbours) -> None:
    """Raise InputError unless the relation is the mechanism's own; "replace" means it here."""
    require(
        neighbours.persons is None,
        "records_per_person",
        neighbours.persons,
        "the paper's form protects records within their row: pass no records_per_person",
    )
    word = neighbours.relation
    require(
        word in ("replace", WITHIN_ROW.relation),
        "adjacency",
        word,
        "the paper's form replaces a record within its row: pass replace-within-row",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExactDirichlet(ExactSampler):
    """The sampler of rows ~ Dirichlet(k_i C_i), C_i the shares of `totals[i]` records. k_i = 0 marks a row released as uniform.

    `fitted` sets totals and k_i, once the public row totals are known.
    """

    neighbours: Neighbours = WITHIN_ROW
    eta: float
    totals: tuple[int, ...] = ()
    concentrations: tuple[Fraction, ...] = ()

    name: ClassVar[str] = "paper"
    by_row: ClassVar[bool] = True
    zero_cells: ClassVar[str] = URN_CELLS

    def __post_init__(self) -> None:
        require(0 < self.eta <= 0.5, "eta", self.eta, "pass a floor above 0 and at most 1/cells")

    @property
    def accountant(self) -> str:
        """The source of delta."""
        return EXACT

    def fitted(self, totals: Sequence[int], cells: np.ndarray) -> ExactDirichlet:
        """The sampler with the largest k_i.

        Args:
            totals: The public record totals of the rows.
            cells: The public numbers of supported cells, (rows,).
        """
        require(self.eta <= 1 / cells.max(), "eta", self.eta, f"pass at most 1/{cells.max()}: a row has {cells.max()} cells")
        drawn = np.flatnonzero((np.array(totals, dtype=np.float64) >= 1) & (cells > 1))
        found = [Fraction(0)] * len(totals)
        if drawn.size:
            rows = PublicRows(
                n_records=np.array(totals, dtype=np.float64)[drawn],
                support=np.arange(cells.max()) < cells[drawn, None],
                eta=np.full(len(drawn), self.eta),
            )
            whole = MatrixMechanism.calibrate(rows=rows, epsilon=self.epsilon, delta=self.delta, unreachable="withhold")
            for place in np.flatnonzero(~np.asarray(whole.withheld)).tolist():
                found[drawn[place]] = self._verified(rows, place, float(np.asarray(whole.k)[place]))
        return dataclasses.replace(self, totals=tuple(totals), concentrations=tuple(found))

    def _verified(self, rows: PublicRows, place: int, k: float) -> Fraction:
        """k of one row, rounded down to a rational at which the exact delta meets the target."""
        one = PublicRows(n_records=rows.n_records[[place]], support=rows.support[[place]], eta=rows.eta[[place]])
        return verified(k, lambda x: bool(MatrixMechanism(rows=one, k=x).exact_delta(self.epsilon) <= self.delta), "k")

    def urn(self, row: int, counts: Sequence[int]) -> Urn | None:
        """The urn of a row: k c/N with k = p/q is p c/(q N). None if the row is released as uniform."""
        k = self.concentrations[row]
        if k == 0:
            return None
        return Urn([k.numerator * c for c in counts], k.denominator * self.totals[row])

    def draw_row(self, row: int, counts: Sequence[int], draws: int) -> list[int] | None:
        """Draws from the row's urn; None if the row is released as uniform."""
        urn = self.urn(row, counts)
        return None if urn is None else urn.draw(draws)

    def least_concentrations(self, cells: np.ndarray) -> np.ndarray:
        """k_i, public because the row totals are."""
        return np.array([float(k) for k in self.concentrations])

    def planned_concentrations(self, n_rows: int, cells: int, row_records: float) -> np.ndarray:
        """k_i; the planning figures are not needed."""
        return np.array([float(k) for k in self.concentrations])

    def expected_error(self, records: float, cells: int) -> float:
        """The expected total variation on the public reference row raised to the floor, p -> (1 - n eta) p + eta."""
        shares = (1 - cells * self.eta) * reference_shares(cells) + self.eta
        k = float(self.fitted([round(records)], np.array([cells])).concentrations[0])
        return dirichlet_error(k * shares, shares) if k else uniform_error(cells)

    def price_head(self, cells: int) -> str:
        """The assumptions."""
        return f"Row totals public, every share at least {self.eta:g} assumed; a row that cannot meet the target becomes uniform."

    def facts(self) -> dict[str, Any]:
        """eta; the statement does not contain the row totals and k_i."""
        return {
            "mechanism": "Dirichlet with public row totals and floor (Algorithm 2), released as draws from a Polya urn",
            "eta": self.eta,
        }

    def sentences(self) -> list[str]:
        """The sentences on what is protected, public and assumed."""
        return [
            self.neighbours.protected(),
            "Public, and not protected: how many records each row holds within the support. A record that moves to another row, or into the"
            " support or out of it, is not covered.",
            f"Assumed: every share of every row is at least {shown(self.eta)}, in each possible cell of each row that has a record. The"
            " guarantee speaks of databases with that property only; whether these records have it was not checked, since a check would say"
            " something of them.",
        ]
