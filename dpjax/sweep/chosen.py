"""Which of a workload's measures a sweep takes, in which bins they are counted, and whose samples are kept.

[sweep]
measures = ["tv"]                                        # left out: all of them
keep_samples = ["tv"]                                    # left out: none; only moments are stored
[sweep.histograms]
tv = {start = 0.0, stop = 1.0, num = 101}                # the edges of the bins, public numbers that no sample decides
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpjax.sweep.validation import refuse_unknown
from dpjax.sweep.workload import Quantity, Workload

if TYPE_CHECKING:
    from dpjax.sweep.config import SweepTable

_SAMPLE_BYTES = 8


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The measures taken, by name, with the edges of their bins; `kept` names those whose samples are stored."""

    taken: tuple[tuple[str, Quantity], ...]
    kept: tuple[str, ...] = ()

    @classmethod
    def of(cls, workload: Workload, sweep: SweepTable | None = None) -> Chosen:
        """What [sweep] chooses of a workload's measures (None: all, as they are); ValueError for a name or an edge that is wrong."""
        if sweep is None:
            return cls(tuple(workload.measures.items()))
        known = workload.measures
        refuse_unknown(sweep.measures or (), known, "sweep.measures")
        taken = {name: known[name] for name in known if sweep.measures is None or name in sweep.measures}
        refuse_unknown(sweep.keep_samples, taken, "sweep.keep_samples")
        refuse_unknown(sweep.histograms, taken, "sweep.histograms")
        for name, edges in sweep.histograms.items():
            taken[name] = dataclasses.replace(taken[name], edges=_increasing(name, edges))
        return cls(tuple(taken.items()), tuple(sorted(set(sweep.keep_samples))))

    @property
    def measures(self) -> Mapping[str, Quantity]:
        """The measures taken, by name."""
        return dict(self.taken)

    def law(self, sweep: SweepTable) -> dict[str, Any]:
        """What of the choice the stored results depend on: nothing where a config chooses nothing."""
        said = {
            "measures": None if sweep.measures is None else sorted(self.measures),
            "keep_samples": list(self.kept),
            "histograms": {name: list(self.measures[name].edges) for name in sweep.histograms},
        }
        return {key: value for key, value in said.items() if value}

    def bytes_a_sample(self, workload: Workload) -> int:
        """What the kept measures of one sample take, stored."""
        sizes = {dim: len(coordinate.values) for dim, coordinate in workload.coordinates.items()}
        return _SAMPLE_BYTES * sum(math.prod(sizes[dim] for dim in self.measures[name].dims) for name in self.kept)


def _increasing(name: str, edges: tuple[Any, ...]) -> tuple[float, ...]:
    numbers = all(isinstance(edge, int | float) and not isinstance(edge, bool) for edge in edges)
    if not numbers or any(a >= b for a, b in itertools.pairwise(edges)):
        raise ValueError(f"sweep.histograms.{name} is {list(edges)}; give increasing numbers, the edges of the bins")
    return tuple(float(edge) for edge in edges)
