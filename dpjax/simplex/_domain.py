"""What is public about one count vector, or about many: k, eta, n_records, n_categories, gamma; checked on the host."""

from __future__ import annotations

import numpy as np

from dpjax._errors import require
from dpjax.simplex._rounding import Numbers, Real, float64

# A count vector at the very border, such as eta = 1/N, must not fall off it by rounding.
_ROUNDING = 1e-12


def check_one(**values: Real) -> None:
    """Each is one number, no list or array."""
    for name, value in values.items():
        require(float64(value, name).ndim == 0, name, value, "it must be one number")


def check_count(value: Real, name: str, least: int) -> Numbers:
    """A number of categories: whole, at least `least`."""
    array = float64(value, name)
    whole = np.isfinite(array) & (array == np.round(array)) & (array >= least)
    require(bool(whole.all()), name, value, f"it must be a whole number, at least {least}")
    return array


def check_positive(value: Real, name: str) -> Numbers:
    """A positive finite number."""
    array = float64(value, name)
    require(bool((np.isfinite(array) & (array > 0)).all()), name, value, "it must be finite and positive")
    return array


def check_k(k: Real) -> Numbers:
    """A concentration from 1e-9 to 1e20, within which the accounting keeps its stated accuracy."""
    array = check_positive(k, "k")
    require(bool(((array >= 1e-9) & (array <= 1e20)).all()), "k", k, "it must lie between 1e-9 and 1e20")
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
