"""Error bars that a receiver computes from a release alone, and of which shares they speak.

*Noisy counts* (`noise_bars`). A cell's noisy count is y = c + Z, those of the other m - 1 supported cells of its row sum to Y = C + Z', Z' a sum
of m - 1 independent draws of the same public law, independent of Z. With |Z| <= q and |Z'| <= q' each but for a probability of (1 - level)/2, the
share c/(c + C) rises in c and falls in C, so with probability at least `level`

    (y - q)^+ / ((y - q)^+ + Y + q') <= c/(c + C) <= (y + q)/(y + q + (Y - q')^+),

and 0 and 1 where a denominator is not positive. q is exact, q' from the law of the sum, by Fourier transform, its round-off added. A row
without a record has no shares, and the interval says nothing of it.

*Draws from Dirichlet rows.* Let A be a row's concentration, M its draws, x the draws of a cell, m the cell's mean, which is the smoothed share
(c + alpha)/(N + n alpha) in Theorem 7's form and the share itself in the paper's. Then x/M has mean m and variance m (1 - m) v(A),
v(A) = (M + A)/(M (A + 1)), which falls as A grows (M > 1). The release states a public A_0 <= A (that of an empty row), so by Chebyshev, for
every database and every cell,

    P( (x/M - m)^2 <= m (1 - m) v(A_0) z^2 ) >= level,    z^2 = 1/(1 - level),

and the m that satisfy the inequality form an interval, the roots of a quadratic (Wilson's with v in place of 1/M). How far m is from the
share c/N depends on N, which is private. Who knows N, or believes it, gets an interval of the share: A = s (N + n alpha) is then known, and
c/N = m (1 + n alpha/N) - alpha/N.

*Where persons are protected* c, C and N count the records that were kept of them. The bars speak of the shares among these and of no others:
leaving records out moves the shares by an amount that the release does not tell, and the shares among all records of the persons may lie
outside far more often than 1 - level. Every result says so in its attribute `speaks_of`.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import fft

from dpjax._errors import invalid, require
from dpjax.counts import NoiseMechanism, mechanism
from dpjax.counts.postprocess import Pmf, reach_of

if TYPE_CHECKING:
    import xarray as xr

    from dpjax.estimate import NoisyCounts

_ROUND_OFF = 1e-12
BARS = "dpjax.release.error_bars(FOLDER) computes them from this release alone; they speak of {of}"
KEPT = (
    "the shares among the records kept, at most {records} of a person, within the support. Of the shares among all records of the persons nothing"
    " is promised: they may lie outside the bars far more often"
)
SUPPORTED = "the shares among the records within the support"


def speaks_of(statement: Mapping[str, Any]) -> str:
    """Of which shares the error bars of a release with this statement speak."""
    records = statement.get("records_a_person")
    return SUPPORTED if records is None else KEPT.format(records=records)


def noise_bars(data: Any, level: float) -> dict[str, np.ndarray]:
    """`estimate`, `standard_error` (that of the noise, to first order), `lower`, `upper`, each (from, to)."""
    require(level < 1 - 1e-9, "level", level, "give a level below 1 - 1e-9")
    support, y = data.supported.values.astype(bool), data.noisy_count.values.astype(np.float64)
    pmf, variance = _noise(data.attrs)
    others = support.sum(axis=1) - 1
    at = np.array([quantile(pmf, int(m), (1 - level) / 2) if m else 0 for m in others])[:, None]
    one = np.where(others > 0, quantile(pmf, 1, (1 - level) / 2), 0)[:, None]
    rest = np.where(support, y, 0.0).sum(axis=1, keepdims=True) - y
    low, high = np.maximum(y - one, 0.0), np.maximum(y + one, 0.0)
    few, many = np.maximum(rest - at, 0.0), np.maximum(rest + at, 0.0)
    share = data.probability.values
    total = np.maximum(np.where(support, y, 0.0).sum(axis=1, keepdims=True), 0.5)
    spread = np.sqrt(variance * ((1 - share) ** 2 + others[:, None] * share**2)) / total
    alone = others[:, None] == 0
    return {
        "estimate": share,
        "standard_error": np.where(alone, 0.0, spread),
        "lower": np.where(alone, 1.0, _ratio(low, many, 0.0)),
        "upper": np.where(alone, 1.0, _ratio(high, few, 1.0)),
    }


def quantile(pmf: Pmf, cells: int, tail: float) -> int:
    """The least q with P(|sum of `cells` draws| > q) <= tail, rounded up where round-off may matter."""
    reach = reach_of(pmf, 1e-18)
    width = cells * 2 * reach + 1
    length = fft.next_fast_len(width, real=True)
    law = fft.irfft(fft.rfft(pmf(reach), length) ** cells, length)[:width]
    upper = np.cumsum(np.maximum(law, 0.0)[::-1])[::-1]  # P(sum >= k - cells reach)
    return int(np.argmax(2 * upper + _ROUND_OFF <= tail)) - cells * reach - 1


def _noise(attributes: Any) -> tuple[Pmf, float]:
    """The law of the noise that a release states, and its variance."""
    facts = {**json.loads(attributes["privacy_statement"]), **attributes}
    kind = mechanism(facts["form"])
    if not issubclass(kind, NoiseMechanism):
        invalid("form", kind.name, "its noise is not known: a mechanism of noisy counts is a NoiseMechanism")
    noise = kind.released(facts)
    return noise.pmf, noise.noise_variance


def _ratio(part: np.ndarray, rest: np.ndarray, otherwise: float) -> np.ndarray:
    whole = part + rest
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), otherwise)


def error_bars(release: Any, *, level: float = 0.95, row_records: Any = None) -> xr.Dataset:
    """`estimate`, `standard_error`, `lower`, `upper` (from, to) of a release: its netCDF file, its folder, or the opened dataset.

    row_records: None (the cells' means; nothing but the release is used), or the receiver's own knowledge of how many records each
    row holds, one number or one a row: the shares themselves. level: of each cell by itself; the intervals rest on Chebyshev's
    inequality and are wide. `standard_error` is the root of the largest variance at the estimate. NaN outside the support.

    Attribute `speaks_of`, of the result and of each variable: of which shares the bars speak. Where persons are protected these are the shares
    among the records kept of them; of the shares among all their records nothing is promised.
    """
    require(0 < level < 1, "level", level, "give a probability strictly between 0 and 1")
    data = _opened(release)
    support = data.supported.values.astype(bool)
    if "noisy_count" in data:
        require(row_records is None, "row_records", row_records, "noisy counts tell their row's total: leave it out")
        return _labelled(data, support, list(noise_bars(data, level).values()), np.ones_like(support))
    drawn = data.draws.values.sum(axis=1, keepdims=True)
    least = data.least_concentration.values[:, None]
    cells = support.sum(axis=1, keepdims=True)
    stretch, shift = np.ones_like(least), np.zeros_like(least)
    if row_records is not None:
        require("pseudocount" in data.attrs, "row_records", row_records, "this form's row totals are public: leave it out")
        records = np.broadcast_to(np.asarray(row_records, dtype=np.float64), data.sizes["from"])[:, None]
        require(bool((records > 0).all()), "row_records", row_records, "give positive numbers")
        stretch = 1 + cells * data.attrs["pseudocount"] / records
        shift = -data.attrs["pseudocount"] / records
        least = data.attrs["scale"] * (records + cells * data.attrs["pseudocount"])
    share = np.where(drawn > 0, data.draws.values / np.maximum(drawn, 1), 1 / cells)
    v = np.where(drawn > 0, (drawn + least) / (np.maximum(drawn, 1) * (least + 1)), 0.0)
    found = [share, np.sqrt(share * (1 - share) * v), *_interval(share, v / (1 - level))]
    values = [stretch * x + (shift if name != 1 else 0) for name, x in enumerate(found)]
    values[2:] = [np.clip(end, 0.0, 1.0) for end in values[2:]]
    return _labelled(data, support, values, np.broadcast_to(drawn > 0, support.shape))


def _interval(share: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The m with (share - m)^2 <= m (1 - m) spread."""
    middle = share + spread / 2
    root = np.sqrt(spread * share * (1 - share) + spread**2 / 4)
    return (middle - root) / (1 + spread), (middle + root) / (1 + spread)


def _labelled(data: Any, support: np.ndarray, values: list[np.ndarray], known: np.ndarray) -> xr.Dataset:
    import xarray as xr

    said = {"speaks_of": speaks_of(json.loads(data.attrs.get("privacy_statement", "{}")))}
    names = ("estimate", "standard_error", "lower", "upper")
    blank = dict(zip(names, (np.nan, np.nan, 0.0, 1.0), strict=True))
    drawn = {
        name: (("from", "to"), np.where(support, np.where(known, value, blank[name]), np.nan), said)
        for name, value in zip(names, values, strict=True)
    }
    return xr.Dataset(drawn, coords={"from": data["from"], "to": data["to"]}, attrs=said)


def _opened(release: Any) -> Any:
    if not isinstance(release, (str, pathlib.Path)):
        return release
    from dpjax.release.model import MODEL_FILE, read_release

    path = pathlib.Path(release)
    return read_release(path / MODEL_FILE if path.is_dir() else path)


_SCALES: dict[str, Callable[[Mapping[str, Any]], float]] = {
    "discrete-laplace": lambda facts: float(facts["noise_scale"]),
    "discrete-gaussian": lambda facts: float(facts["noise_variance"]) ** 0.5,
}


def noisy_counts(release: Any) -> NoisyCounts:
    """The noisy counts of a release with the law of their noise, for `dpjax.estimate`: its netCDF file, its folder, or the opened dataset.

    Raises: ValueError for a release of draws from Dirichlet rows, and for one of a mechanism whose noise `dpjax.estimate` does not know.
    """
    from dpjax.estimate import Noise, NoisyCounts

    data = _opened(release)
    if "noisy_count" not in data:
        remedy = "give a release of discrete Laplace or discrete Gaussian noise"
        invalid("release", None, remedy, problem="holds draws from Dirichlet rows and no noisy counts")
    facts = {**json.loads(data.attrs["privacy_statement"]), **data.attrs}
    if facts["form"] not in _SCALES:
        invalid(
            "release", None, f"give a release of {' or '.join(_SCALES)} noise", problem=f"has noise of the form {facts['form']!r}"
        )
    noise = Noise(facts["form"], _SCALES[facts["form"]](facts))
    support = data.supported.values.astype(bool)
    counts = np.where(support, data.noisy_count.values, 0).astype(np.float64)
    return NoisyCounts(counts, noise, support, tuple(str(label) for label in data["from"].values))
