"""What is public about one count vector, or about many: k, eta, n_records, n_categories, gamma; checked on the host.

Checks of sensitive inputs on the host, before a draw: count vectors on the bordered simplex, and counts.
"""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Float

from dpjax._errors import require
from dpjax.simplex._rounding import Numbers, Real, float64

# A count vector at the very border, such as eta = 1/N, must not fall off it by rounding.
_ROUNDING = 1e-12


def check_one(**values: Real) -> None:
    """Each is one number, no list or array."""
    for name, value in values.items():
        require(float64(value, name).ndim == 0, name, value, "pass a scalar", must="be one number")


def check_count(value: Real, name: str, least: int) -> Numbers:
    """A number of categories: whole, at least `least`."""
    array = float64(value, name)
    whole = np.isfinite(array) & (array == np.round(array)) & (array >= least)
    require(bool(whole.all()), name, value, f"pass a number such as {max(least, 1)}", must=f"be a whole number, at least {least}")
    return array


def check_positive(value: Real, name: str) -> Numbers:
    """A positive finite number."""
    array = float64(value, name)
    require(bool((np.isfinite(array) & (array > 0)).all()), name, value, "pass a number above 0", must="be finite and positive")
    return array


LARGEST_K = 1e20


def check_k(k: Real) -> Numbers:
    """A concentration from 1e-9 to 1e20, within which the accounting keeps its stated accuracy."""
    array = check_positive(k, "k")
    require(
        bool(((array >= 1e-9) & (array <= LARGEST_K)).all()),
        "k",
        k,
        "pass a concentration such as 100.0",
        must="lie between 1e-9 and 1e20",
    )
    return array


def check_border(eta: Real, n_categories: Numbers) -> Numbers:
    """eta in (0, 1/n]."""
    array = check_positive(eta, "eta")
    most = (1 + _ROUNDING) / n_categories
    require(
        bool((array <= most).all()),
        "eta",
        eta,
        f"{_categories(n_categories)} shares of at least eta cannot sum to one: take eta <= 1/n",
    )
    return array


def has_adjacent_pair(eta: Numbers, n_records: Numbers, n_categories: Numbers) -> Numbers:
    """Whether the bordered simplex holds two count vectors that differ by one record: n eta + 1/N <= 1."""
    return n_categories * eta + 1 / n_records <= 1 + _ROUNDING


def check_adjacent_pair(eta: Numbers, n_records: Numbers, n_categories: Numbers) -> None:
    """Raise where no two adjacent count vectors have all shares >= eta: a guarantee over an empty set is none.

    Nor may N eta be under 1e-6 or N above 1e13: the accounting keeps its stated accuracy within these.
    """
    tiny = "a floor under a millionth of a record protects next to nothing: take N eta >= 1e-6"
    require(bool((n_records * eta >= 1e-6 * (1 - _ROUNDING)).all()), "eta", _plain(eta), tiny)
    require(bool((n_records <= 1e13).all()), "n_records", _plain(n_records), "the accounting takes up to 1e13 records")
    require(
        bool(has_adjacent_pair(eta, n_records, n_categories).all()),
        "eta",
        _plain(eta),
        f"with N = {_plain(n_records)} records in {_categories(n_categories)} categories no two adjacent count vectors have all"
        " shares >= eta (n eta + 1/N > 1), so the guarantee would say nothing: declare a smaller public floor",
    )


def lattice_floor(eta: Numbers, n_records: Numbers) -> Numbers:
    """The smallest share >= eta that N records can have, ceil(N eta)/N; a floor that is one already, up to rounding, stays."""
    whole = np.ceil(n_records * eta * (1 - _ROUNDING))
    return np.maximum(whole / n_records, eta)


def _plain(x: Numbers) -> object:
    return x.tolist()


def _categories(n: Numbers) -> str:
    return f"{int(n)}" if n.ndim == 0 else "n"


Shares = np.ndarray | jax.Array | list | tuple


def is_traced(x: object) -> bool:
    """Whether `x` has no value yet (inside jit or vmap), so that only its shape can be checked."""
    return isinstance(x, jax.core.Tracer)


def as_float(x: Shares) -> Float[Array, "*shape"]:
    """`x` as a JAX array of its own float type; whole numbers become the default float."""
    if isinstance(x, jax.Array) and jax.numpy.issubdtype(x.dtype, jax.numpy.floating):
        return x
    return jax.numpy.asarray(x, dtype=jax.dtypes.canonicalize_dtype(float))


def check_shares(C: Shares, eta: Numbers, n_categories: Numbers, name: str = "C") -> None:
    """Raise unless each vector on the last axis sums to one and has n_categories positive shares, all at least eta.

    eta and n_categories broadcast against C's leading axes. A zero is a category outside the declared support.
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
        f"its shares do not sum to one on the last axis (off by {off:.3g}): divide them by their sum",
    )
    seen = (shares > 0).sum(axis=-1)
    wrong = seen != n_categories
    if wrong.any():
        found, wanted = int(seen[wrong].flat[0]), int(np.broadcast_to(n_categories, seen.shape)[wrong].flat[0])
        problem = f"{found} of its shares are positive where n_categories is {wanted}: a category without records is below any eta"
        require(False, name, C, f"{problem}: declare the support, or use PseudocountMechanism, which covers empty cells")
    least = np.where(shares > 0, shares, np.inf).min(axis=-1)
    below = least < eta * (1 - slack)
    if below.any():
        floor, share = np.broadcast_to(eta, below.shape)[below].flat[0], least[below].flat[0]
        require(
            False, "eta", float(floor), f"it is above the smallest share {share:.6g} of {name}: the guarantee would not cover it"
        )


def check_counts(counts: Shares) -> None:
    """Raise unless counts are whole numbers, at least 0 and finite."""
    values = np.asarray(counts, dtype=np.float64)
    good = np.isfinite(values) & (values >= 0) & (values == np.round(values))
    require(bool(good.all()), "counts", counts, "pass whole numbers, at least 0")
