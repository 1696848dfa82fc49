"""The public facts of one count vector or of a matrix of counts, and the checks of sensitive inputs before a draw.

Public are k, eta, n_records, n_categories and gamma of a count vector. Public about the rows of a count matrix are the record
totals N_i, the support, and the floor eta_i of each row.

The guarantee of Algorithm 2 covers databases with these totals, this support, and all supported shares at least eta_i. The user
declares these facts, or reads them off the data on purpose; `statement` says which. A row with one supported category is a public
constant.

The paper's rule, eta_i = the smallest share of row i, makes the border a function of the data. The guarantee then covers only
databases in which no cell is rarer than in this one, and the release reveals that share. A row whose shares are all equal, or
nearly equal (one record in each of two categories, or fifty), has no neighbour under that rule (n_i eta_i + 1/N_i > 1). Its
guarantee is empty, and the report says so. A floor below the smallest share, declared without a look at the data, avoids both
problems. It costs privacy, because m = N eta shrinks.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import invalid, real_array, require
from dpjax._tracing import check_traced, float_dtype, frozen_pytree, is_traced, require_concrete
from dpjax.simplex._rounding import Numbers, Real, alike, float64, require_all

# Rounding must not put a count vector at the border, such as eta = 1/N, outside it.
_ROUNDING = 1e-12


def check_shapes(**values: Any) -> None:
    """Raise InputError unless the shapes of the values broadcast."""
    shapes = {name: np.shape(value) for name, value in values.items()}
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        found = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if shape)
        invalid(", ".join(shapes), None, f"their shapes are {found}", problem="do not broadcast")


def check_one(**values: Real) -> None:
    """Raise InputError unless each value is one number."""
    for name, value in values.items():
        one = float64(value, name).ndim == 0
        require(one, name, value, "pass a scalar, and use jax.vmap for a batch", must="be one number")


def check_count(value: Real, name: str, least: int) -> Numbers:
    """A number of categories: a whole number, at least `least`."""
    array = float64(value, name)
    whole = (array < np.inf) & (array == array.round()) & (array >= least)
    require_all(whole, name, value, f"pass a number such as {max(least, 1)}", must=f"be a whole number, at least {least}")
    return array


def check_positive(value: Real, name: str) -> Numbers:
    """A positive finite number."""
    array = float64(value, name)
    require_all((array < np.inf) & (array > 0), name, value, "pass a number above 0", must="be finite and positive")
    return array


LARGEST_K = 1e20


def check_k(k: Real) -> Numbers:
    """A concentration between 1e-9 and 1e20, the range in which the accounting keeps its stated accuracy."""
    array = check_positive(k, "k")
    require_all(
        (array >= 1e-9) & (array <= LARGEST_K),
        "k",
        k,
        "pass a concentration such as 100.0",
        must="lie between 1e-9 and 1e20",
    )
    return array


def check_border(eta: Real, n_categories: Numbers) -> Numbers:
    """A floor eta in (0, 1/n]."""
    array = check_positive(eta, "eta")
    if is_traced(array, n_categories):
        floor, n = alike(array, n_categories)
        check_traced(floor * n <= 1 + _ROUNDING + _units(floor), "eta", "be at most 1/n")
        return array
    most = (1 + _ROUNDING) / n_categories
    require(
        bool((array <= most).all()),
        "eta",
        eta,
        f"{_categories(n_categories)} shares of at least eta cannot sum to one: pass eta <= 1/n",
    )
    return array


def _units(x: jax.Array) -> float:
    """The rounding error allowed to a traced value at its border: a few units in the last place."""
    return 8 * float(jnp.finfo(x.dtype).eps)


def has_adjacent_pair(eta: Any, n_records: Any, n_categories: Any) -> Any:
    """Whether the bordered simplex holds two count vectors that differ by one record: n eta + 1/N <= 1."""
    return n_categories * eta + 1 / n_records <= 1 + _ROUNDING


def check_adjacent_pair(eta: Numbers, n_records: Numbers, n_categories: Numbers) -> None:
    """Raise InputError unless two adjacent count vectors have all shares >= eta; without such a pair the guarantee is empty.

    N eta must be at least 1e-6 and N at most 1e13, the range in which the accounting keeps its stated accuracy.
    """
    if is_traced(eta, n_records, n_categories):
        floor, records, n = alike(eta, n_records, n_categories)
        check_traced(
            n * floor + 1 / records <= 1 + _ROUNDING + _units(floor), "eta", "leave two adjacent count vectors inside the border"
        )
        check_traced(records * floor >= 1e-6 * (1 - _ROUNDING - _units(floor)), "eta", "have N eta of 1e-6 or more")
        return
    tiny = "a floor below a millionth of a record protects almost nothing: pass eta with N eta >= 1e-6"
    require(bool((n_records * eta >= 1e-6 * (1 - _ROUNDING)).all()), "eta", _plain(eta), tiny)
    require(
        bool((n_records <= 1e13).all()), "n_records", _plain(n_records), "the accounting is accurate up to 1e13 records: pass fewer"
    )
    require(
        bool(has_adjacent_pair(eta, n_records, n_categories).all()),
        "eta",
        _plain(eta),
        f"with N = {_plain(n_records)} records in {_categories(n_categories)} categories no two adjacent count vectors have all"
        " shares >= eta (n eta + 1/N > 1), so the guarantee would be empty: declare a smaller public floor",
    )


def lattice_floor(eta: Numbers, n_records: Numbers) -> Numbers:
    """The smallest share >= eta that N records can have, ceil(N eta)/N. A floor that is such a share up to rounding stays."""
    xp = jnp if isinstance(eta, jax.Array) else np
    whole = xp.ceil(n_records * eta * (1 - _ROUNDING))
    return xp.maximum(whole / n_records, eta)


def _plain(x: Numbers) -> object:
    return x.tolist()


def _categories(n: Numbers) -> str:
    return f"{int(n)}" if n.ndim == 0 else "n"


Shares = np.ndarray | jax.Array | list | tuple


def as_float(x: Shares) -> Float[Array, "*shape"]:
    """`x` as a JAX array of its own float dtype; whole numbers become the default float."""
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating):
        return x
    return jnp.asarray(x, dtype=jax.dtypes.canonicalize_dtype(float))


def check_shares(C: Shares, eta: Numbers, n_categories: Numbers, name: str = "C") -> None:
    """Raise InputError unless each vector sums to one and has n_categories positive shares, all at least eta.

    Args:
        C: Shares, (*batch, n). A zero is a category outside the declared support.
        eta: Floors; broadcast against *batch.
        n_categories: Numbers of supported categories; broadcast against *batch.
        name: The name of C in errors.
    """
    given = np.asarray(C)
    shares = given.astype(np.float64)
    slack = 8 * (float(np.finfo(given.dtype).eps) if np.issubdtype(given.dtype, np.floating) else 1e-16)
    require(
        shares.ndim >= 1 and shares.shape[-1] >= 1,
        name,
        C,
        "pass a vector of shares, or a stack of them",
        must="hold shares on its last axis",
    )
    require(bool(np.isfinite(shares).all() and (shares >= 0).all()), name, C, "pass finite shares, at least 0")
    off = float(np.abs(shares.sum(axis=-1) - 1).max())
    require(
        off <= slack * (1 + shares.shape[-1] ** 0.5),
        name,
        C,
        f"its shares do not sum to one on the last axis (they miss it by {off:.3g}): divide them by their sum",
    )
    seen = (shares > 0).sum(axis=-1)
    wrong = seen != n_categories
    if wrong.any():
        found, wanted = int(seen[wrong].flat[0]), int(np.broadcast_to(n_categories, seen.shape)[wrong].flat[0])
        problem = f"{found} of its shares are positive but n_categories is {wanted}: a category without records is below any eta"
        require(False, name, C, f"{problem}: declare the support, or use PseudocountMechanism, which covers empty cells")
    least = np.where(shares > 0, shares, np.inf).min(axis=-1)
    below = least < eta * (1 - slack)
    if below.any():
        floor, share = np.broadcast_to(eta, below.shape)[below].flat[0], least[below].flat[0]
        require(
            False,
            "eta",
            float(floor),
            f"it is above the smallest share {share:.6g} of {name}, so the guarantee would not cover {name}: pass a smaller eta",
        )


def check_traced_shares(C: Shares, eta: Any, n_categories: Any, name: str = "C") -> None:
    """`check_shares` for a traced C or traced public numbers: always the shape; the values only under `debug_checks`."""
    shape, rule = np.shape(C), "hold shares on its last axis"
    require(len(shape) >= 1 and shape[-1] >= 1, name, shape, "pass a vector of shares, or a stack of them", must=rule)
    if not is_traced(n_categories):
        most = int(np.max(n_categories, initial=0))
        remedy = f"n_categories is {most}: pass at least {most} shares; extra entries must be 0"
        require(shape[-1] >= most, name, None, remedy, problem=f"holds {shape[-1]} shares")
    dtype = float_dtype(C, eta)
    shares, floor, n = jnp.asarray(C, dtype), jnp.asarray(eta, dtype), jnp.asarray(n_categories, dtype)
    slack = 8 * float(jnp.finfo(dtype).eps)
    check_traced(shares >= 0, name, "hold shares, all at least 0, on its last axis")
    near = jnp.abs(shares.sum(axis=-1) - 1) <= slack * (1 + shares.shape[-1] ** 0.5)
    check_traced(near, name, "hold shares that sum to one on the last axis")
    check_traced((shares > 0).sum(axis=-1).astype(dtype) == n, name, "have n_categories positive shares")
    least = jnp.where(shares > 0, shares, jnp.inf).min(axis=-1)
    check_traced(least >= floor * (1 - slack), "eta", f"be at most the smallest share of {name}")


def check_counts(counts: Shares) -> None:
    """Raise InputError unless counts are finite whole numbers, at least 0. Traced counts are checked only under `debug_checks`."""
    if is_traced(counts):
        array = jnp.asarray(counts)
        check_traced((array >= 0) & (array == jnp.round(array)), "counts", "be whole numbers, at least 0")
        return
    values = real_array(counts, "counts", "pass whole numbers, at least 0")
    good = np.isfinite(values) & (values >= 0) & (values == np.round(values))
    require(bool(good.all()), "counts", counts, "pass whole numbers, at least 0")


Source = Literal["declared", "observed"]
BY_DECLARATION = "treated as public by the user's declaration"
_SUPPORT = {
    "declared": "support: declared public by the user",
    "observed": f"support: observed in the data, {BY_DECLARATION}",
}
_ETA = {
    "declared": "eta: declared public by the user",
    "observed": f"eta: the smallest share of each row, read off the data and {BY_DECLARATION}",
}


@frozen_pytree("n_records", "eta", static=("support", "support_source", "eta_source"))
@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class PublicRows:
    """The public facts of a count matrix: totals, support and floors of its rows, public by declaration.

    A pytree: totals and floors are leaves and may be traced; the support is static. It describes one matrix: use `jax.vmap` for
    several.

    Args:
        n_records: Record totals N_i, one number or (rows,), at least 1 in a row with two categories or more.
        support: The possible categories of each row, (rows, n), booleans. Each row has at least one.
        eta: Floors of the shares, one number or (rows,), in (0, 1/n_i]. Not used in a row with one supported category.
        support_source: "declared" by the user, or "observed" in the data and treated as public.
        eta_source: "declared" by the user, or "observed" in the data and treated as public.

    Raises:
        InputError: A row, a total or a floor is invalid.

    Source:
        Algorithm 2 of the Dirichlet-mechanism paper.

    Example:
        >>> import numpy as np
        >>> from dpjax.simplex import PublicRows
        >>> rows = PublicRows(n_records=[98.0, 50.0], support=np.ones((2, 5), bool), eta=0.05)
        >>> rows.n_categories.tolist(), rows.statement
        ([5, 5], 'support: declared public by the user; eta: declared public by the user; row totals: public')
    """

    n_records: np.ndarray
    support: np.ndarray
    eta: np.ndarray
    support_source: Source = "declared"
    eta_source: Source = "declared"

    def __post_init__(self) -> None:
        require_concrete(self.support, "support", "make it outside the transformed function: it is static structure")
        support = np.asarray(self.support)
        require(
            support.ndim == 2 and support.dtype == bool,
            "support",
            self.support,
            "give one, such as counts > 0",
            must="be a matrix of booleans (rows, n)",
        )
        n = support.sum(axis=1)
        require(
            bool((n > 0).all()), "support", np.flatnonzero(n == 0).tolist(), "these rows have no supported category: remove them"
        )
        for name in ("n_records", "eta"):
            given = float64(getattr(self, name), name)
            remedy = f"pass one number, or one for each of the {len(n)} rows; use jax.vmap for several matrices"
            require(given.shape in ((), (1,), n.shape), name, given.shape, remedy)
            values = jnp.broadcast_to(given, n.shape) if is_traced(given) else np.broadcast_to(given, n.shape)
            object.__setattr__(self, name, values)
        object.__setattr__(self, "support", support)
        self.check()

    def check(self) -> None:
        """Raise InputError unless the totals and floors are possible. A pytree brings them unchecked."""
        n = self.n_categories
        records, eta = (float64(getattr(self, name), name) for name in ("n_records", "eta"))
        for name, values in (("n_records", records), ("eta", eta)):
            require(values.shape == n.shape, name, values.shape, "use jax.vmap to call methods of several matrices")
        choice = n > 1
        few = choice & ~(records >= 1)
        if is_traced(few):
            check_traced(~few, "n_records", "be 1 or more in every row with a choice")
        else:
            require(
                not few.any(),
                "n_records",
                self.n_records,
                f"rows {some(few)} have fewer than one record: remove them or merge them",
            )
        check_border(eta[choice], n[choice].astype(np.float64))

    @classmethod
    def from_counts(
        cls, counts: np.ndarray, *, support: np.ndarray | Literal["observed"], eta: Real | Literal["smallest share"]
    ) -> PublicRows:
        """On the host: the public facts of a table of counts.

        Args:
            counts: Whole numbers, (rows, n). Their row sums are the totals.
            support: The possible categories, (rows, n), or "observed" for the cells with counts > 0.
            eta: Public floors, one number or (rows,), or "smallest share" for the paper's rule: the smallest share among the
                supported categories of
                each row.

        Raises:
            InputError: Records lie outside the support, or a fact is invalid.
        """
        require_concrete(counts, "counts", "count outside the transformed function: totals and support are public structure")
        check_counts(counts)
        values = np.asarray(counts, dtype=np.float64)
        observed = isinstance(support, str)
        if observed:
            require(
                support == "observed",
                "support",
                support,
                'pass a mask, or "observed" to take counts > 0 as public',
                must='be a boolean matrix or "observed"',
            )
        mask = values > 0 if observed else np.asarray(support)
        if not observed:
            require(
                mask.shape == values.shape,
                "support",
                np.shape(mask),
                f"its shape must equal the shape of the counts, {values.shape}",
            )
            outside = np.where(mask, 0.0, values).sum(axis=1) > 0
            problem = "have records outside the declared support, which would increase N_i: remove those records, or add their cells to the support"
            require(not outside.any(), "counts", some(outside), f"these rows {problem}")
        rule = isinstance(eta, str)
        if rule:
            require(
                eta == "smallest share",
                "eta",
                eta,
                'pass a public floor, or "smallest share" to compute it from the counts',
                must='be numbers or "smallest share"',
            )
        return cls(
            n_records=values.sum(axis=1),
            support=mask,
            eta=smallest_shares(values, mask) if isinstance(eta, str) else float64(eta, "eta"),
            support_source="observed" if observed else "declared",
            eta_source="observed" if rule else "declared",
        )

    @functools.cached_property
    def n_categories(self) -> np.ndarray:
        """The number of supported categories of each row."""
        return self.support.sum(axis=1)

    @functools.cached_property
    def constant(self) -> np.ndarray:
        """The rows with one supported category: public, with epsilon 0."""
        return self.n_categories == 1

    @functools.cached_property
    def k_min(self) -> np.ndarray:
        """3/(2 eta_i), A-Theorem 1's Assumption 4; 0 for a constant row."""
        xp = jnp if is_traced(self.eta) else np
        return xp.where(self.constant, 0.0, 1.5 / xp.where(self.constant, 1.0, self.eta))

    @functools.cached_property
    def has_adjacent_pair(self) -> np.ndarray:
        """Whether the bordered simplex of each row holds two count vectors that differ by one record; False for a constant row."""
        if is_traced(self.eta, self.n_records):
            eta, records, n = alike(self.eta, self.n_records, self.n_categories)
            return ~self.constant & has_adjacent_pair(eta, jnp.where(self.constant, 1.0, records), n)
        known = np.where(self.constant, 1.0, np.asarray(self.n_records, np.float64))
        return ~self.constant & has_adjacent_pair(np.asarray(self.eta, np.float64), known, self.n_categories)

    @property
    def statement(self) -> str:
        """The sources of support and eta, in words for the reader of the release."""
        return f"{_SUPPORT[self.support_source]}; {_ETA[self.eta_source]}; row totals: public"


def smallest_shares(counts: np.ndarray, support: np.ndarray) -> np.ndarray:
    """The paper's rule for eta: the smallest share of each row among its supported categories, (rows,).

    Raises:
        InputError: A supported category has no record; its share 0 cannot be a floor. Use `PseudocountMechanism`, which covers
            empty cells.
    """
    values, mask = np.asarray(counts, dtype=np.float64), np.asarray(support, dtype=bool)
    least = np.where(mask, values, np.inf).min(axis=1)
    empty = ~(least > 0)
    remedy = "a supported category of these rows has no record, and 0 cannot be a floor: remove it from the support or use PseudocountMechanism"
    require(not empty.any(), "counts", np.flatnonzero(empty).tolist(), remedy)
    return least / values.sum(axis=1)


def some(mask: np.ndarray) -> str:
    """The indices of the true entries, as text: at most eight."""
    found = np.flatnonzero(mask).tolist()
    return str(found) if len(found) <= 8 else f"{found[:8]} and {len(found) - 8} more"
