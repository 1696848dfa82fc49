"""Error bars that a receiver computes from a release alone, and the shares for which they hold.

*Noisy counts* (`noise_bars`). The noisy count of a cell is y = c + Z. The noisy counts of the other m - 1 supported cells of its row sum to
Y = C + Z', where Z' is a sum of m - 1 independent draws from the same public law, independent of Z. Let |Z| <= q and |Z'| <= q' each hold except
with probability (1 - level)/2. The share c/(c + C) increases in c and decreases in C, so with probability at least `level`

    (y - q)^+ / ((y - q)^+ + Y + q') <= c/(c + C) <= (y + q)/(y + q + (Y - q')^+),

with 0 and 1 where a denominator is not positive. q is exact. q' comes from the law of the sum, by Fourier transform, with its round-off added.
A row without records has no shares, and its interval has no meaning.

*Draws from Dirichlet rows.* Let A be the concentration of a row, M its draws, x the draws of a cell and m the mean of the cell: the smoothed
share (c + alpha)/(N + n alpha) in the form of Theorem 7, the share itself in the paper's form. Then x/M has mean m and variance m (1 - m) v(A),
v(A) = (M + A)/(M (A + 1)), which decreases in A (M > 1). The release states a public A_0 <= A, the concentration of an empty row. So by
Chebyshev's inequality, for every database and every cell,

    P( (x/M - m)^2 <= m (1 - m) v(A_0) z^2 ) >= level,    z^2 = 1/(1 - level).

The m that satisfy the inequality form an interval between the roots of a quadratic (Wilson's interval with v in place of 1/M). The distance of m
from the share c/N depends on N, which is private. A receiver who knows or assumes N gets an interval of the share: then A = s (N + n alpha) is
known, and c/N = m (1 + n alpha/N) - alpha/N.

*If persons are protected*, c, C and N count the records that were kept of them. The bars hold for the shares among these records and for no
others: leaving records out moves the shares by an amount that the release does not reveal. The shares among all records of the persons may lie
outside the bars far more often than 1 - level. The attribute `speaks_of` of every result says so.
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
BARS = "dpjax.release.error_bars(FOLDER) computes them from this release alone; they hold for {of}"
KEPT = (
    "the shares among the records kept, at most {records} of a person, within the support. For the shares among all records of the persons nothing"
    " is promised: they may lie outside the bars far more often"
)
SUPPORTED = "the shares among the records within the support"


def speaks_of(statement: Mapping[str, Any]) -> str:
    """The shares for which the error bars of a release with this statement hold, as a phrase."""
    records = statement.get("records_a_person")
    return SUPPORTED if records is None else KEPT.format(records=records)


def noise_bars(data: Any, level: float) -> dict[str, np.ndarray]:
    """The error bars of noisy counts: `estimate`, `standard_error` (of the noise, to first order), `lower`, `upper`, each (from, to)."""
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
    """The smallest q with P(|sum of `cells` draws| > q) <= tail, rounded up where round-off may matter."""
    reach = reach_of(pmf, 1e-18)
    width = cells * 2 * reach + 1
    length = fft.next_fast_len(width, real=True)
    law = fft.irfft(fft.rfft(pmf(reach), length) ** cells, length)[:width]
    upper = np.cumsum(np.maximum(law, 0.0)[::-1])[::-1]  # P(sum >= k - cells reach)
    return int(np.argmax(2 * upper + _ROUND_OFF <= tail)) - cells * reach - 1


def _noise(attributes: Any) -> tuple[Pmf, float]:
    """(law of the noise that a release states, its variance)."""
    facts = {**json.loads(attributes["privacy_statement"]), **attributes}
    kind = mechanism(facts["form"])
    if not issubclass(kind, NoiseMechanism):
        invalid("form", kind.name, "its noise is not known: a mechanism of noisy counts must be a NoiseMechanism")
    noise = kind.released(facts)
    return noise.pmf, noise.noise_variance


def _ratio(part: np.ndarray, rest: np.ndarray, otherwise: float) -> np.ndarray:
    whole = part + rest
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1.0), otherwise)


def error_bars(release: Any, *, level: float = 0.95, row_records: Any = None) -> xr.Dataset:
    """The error bars of a release: `estimate`, `standard_error`, `lower` and `upper`, each (from, to), NaN outside the support.

    For draws from Dirichlet rows the intervals rest on Chebyshev's inequality and are wide, and `standard_error` is the root of the largest
    variance at the estimate. The attribute `speaks_of` of the result and of each variable says for which shares the bars hold. If persons are
    protected, these are the shares among the kept records; nothing is promised for the shares among all records.

    Args:
        release: the folder of the release, its netCDF file, or the opened dataset.
        level: probability that the interval of a cell holds, for each cell alone, strictly between 0 and 1.
        row_records: None for bars on the means of the cells, from the release alone. Or the number of records of each row, one number or
            one per row, if the receiver knows it: bars on the shares.
    """
    require(0 < level < 1, "level", level, "give a probability strictly between 0 and 1")
    data = _opened(release)
    support = data.supported.values.astype(bool)
    if "noisy_count" in data:
        require(row_records is None, "row_records", row_records, "noisy counts give the total of the row: leave it out")
        return _labelled(data, support, list(noise_bars(data, level).values()), np.ones_like(support))
    drawn = data.draws.values.sum(axis=1, keepdims=True)
    least = data.least_concentration.values[:, None]
    cells = support.sum(axis=1, keepdims=True)
    stretch, shift = np.ones_like(least), np.zeros_like(least)
    if row_records is not None:
        require("pseudocount" in data.attrs, "row_records", row_records, "the row totals of this form are public: leave it out")
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
    """The end points of the interval of m with (share - m)^2 <= m (1 - m) spread."""
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
    labels = tuple(str(label) for label in data["from"].values)
    return NoisyCounts(counts, noise, support, labels, speaks_of(facts))
