"""The cells of a sweep of private trajectories as curves: which mechanism, at which epsilon, with which guarantee, in words.

Stored results only. What is no axis of the sweep is read from the config that is kept with the results. A mechanism appears in a nominal
comparison at the papers' parameters, and in a matched one at a single-substitution epsilon equal to the target; one that meets the target at
its nominal parameters (Chen et al. at b = 1) belongs to both.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

import xarray as xr

from dpjax.plot import style

NAMES = {
    "mechanism1": "Mechanism 1",
    "chen": "Chen et al.",
    "hamming": "Appendix C",
    "exponential": "exponential",
    "prior": "with prior",
    "offline": "offline",
}
ORDER = tuple(NAMES)
_DEFAULTS = {
    "kind": "mechanism1",
    "matched": False,
    "start": "sensitive",
    "rho": 1.0,
    "b": 1,
    "prior_weight": 1.0,
    "base_weight": 0.0,
}
_STARTS = {
    "sensitive": "s'_0 = s_0, which is public",
    "uniform": "s'_0 uniform over the states",
    "stationary": "s'_0 from the stationary distribution",
}


def cells(results: xr.Dataset) -> list[xr.Dataset]:
    """Every computed cell, each with its place on the axes as scalar coordinates."""
    dims = results["samples"].dims
    places = itertools.product(*(range(results.sizes[dim]) for dim in dims))
    every = [results.isel(dict(zip(dims, place, strict=True))) for place in places]
    return [cell for cell in every if str(cell["status"].values) == "done"]


def setting(cell: xr.Dataset, key: str) -> Any:
    """The value of a key of [mechanism] in a cell."""
    if key in cell.coords:
        return cell[key].values.item()
    return json.loads(cell.attrs["law"])["mechanism"].get(key, _DEFAULTS.get(key))


def at(results: xr.Dataset, **wanted: Any) -> list[xr.Dataset]:
    """The cells whose settings are `wanted`, in the order of NAMES."""
    found = [cell for cell in cells(results) if all(setting(cell, key) == value for key, value in wanted.items())]
    return sorted(found, key=lambda cell: ORDER.index(setting(cell, "kind")))


def values(results: xr.Dataset, key: str) -> list[Any]:
    """The values that a setting takes, in order of their first cell."""
    return list(dict.fromkeys(setting(cell, key) for cell in cells(results)))


def comparison(found: Iterable[xr.Dataset], *, matched: bool) -> list[xr.Dataset]:
    """The cells of the nominal or of the matched comparison, one for each mechanism."""
    chosen: dict[str, xr.Dataset] = {}
    for cell in found:
        meets = abs(float(cell["substitution_epsilon"]) - float(setting(cell, "epsilon"))) < 1e-5 * float(setting(cell, "epsilon"))
        if bool(setting(cell, "matched")) == matched or (matched and meets and setting(cell, "kind") == "chen"):
            chosen.setdefault(setting(cell, "kind"), cell)
    return list(chosen.values())


def guarantee(cell: xr.Dataset) -> str:
    """Both guarantees, for a legend."""
    bound = "" if bool(cell["substitution_exact"] == 1) else " (bound)"
    return f"rate {float(cell['metric_rate']):.3g}, one state {float(cell['substitution_epsilon']):.3g} nats{bound}"


def label(cell: xr.Dataset) -> str:
    """Mechanism and both guarantees."""
    return f"{NAMES[setting(cell, 'kind')]}: {guarantee(cell)}"


def line(cell: xr.Dataset) -> dict[str, Any]:
    """Colour and dash of a mechanism, the same in every figure."""
    return style.line(ORDER.index(setting(cell, "kind")))


def marker(cell: xr.Dataset) -> str:
    """Its marker."""
    return style.MARKERS[ORDER.index(setting(cell, "kind"))]


def title(matched: bool, epsilon: float) -> str:
    """What a panel compares."""
    if matched:
        return f"matched: one state costs $\\epsilon$ = {epsilon:g}"
    return f"papers' parameters: $\\epsilon$ = {epsilon:g}"


def words(results: xr.Dataset, start: str) -> str:
    """The data, the sensitive trajectory, the start and the sample size, for a caption."""
    table = json.loads(results.attrs["law"])["mechanism"]
    source = table.get("trajectory", {})
    origin = {
        "data": "the data set's own",
        "labels": "invented, listed in the config",
        "simulated": f"simulated from the chain, seed {source.get('seed', 0)}",
    }[source.get("source", "data")]
    length = int(results["length"].max())
    rho = ", ".join(f"{value:g}" for value in values(results, "rho"))
    return (
        f"{style.data_of(results)} One sensitive trajectory of {length} transitions ({origin}); {_STARTS.get(start, f'start in {start}')}; "
        f"{int(results['samples'].max()):,} private trajectories a point; rho = {rho} nat, b = {', '.join(map(str, values(results, 'b')))}."
    )


GUARANTEES = (
    "Each curve is labelled with what replacing one state by another at one time costs: at most rate times their distance G_avg, "
    "and at most so many nats for any two states (exact, or a proved bound where it says so)."
)
