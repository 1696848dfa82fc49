"""The config of a sweep: one TOML file, in which every key is checked and an unknown key is refused by name.

name = "grades"                     # the name of the results
workload = "dirichlet-vector"       # or "package.module:builder"
[data]                              # checked by the reader of the records
[mechanism]                         # checked by the workload
[sweep]
samples = 10_000                    # for each cell
seed = 0
memory = "512 MiB"                  # limit for the samples in flight; changes no number
block = "auto"                      # samples in a block; part of the fingerprint
devices = "all"                     # or a number of this machine's devices; changes no number
measures = ["kl"]                   # default: all measures of the workload
keep_samples = []                   # measures whose samples are stored, in addition to the moments
zip = [["eta", "k"]]                # axes that run side by side; the others form a product
[sweep.histograms]
kl = {start = 0.0, stop = 2.0, num = 41}   # public edges of the bins
[sweep.axes]
epsilon = [0.5, 1.0, 2.0]
k = {start = 1, stop = 1000, num = 7, log = true}
[output]
dir = "results/grades"

*Measures* (`Chosen`): which of a workload's measures a sweep takes, in which bins they are counted, and whose samples are kept.

[sweep]
measures = ["tv"]                                        # default: all
keep_samples = ["tv"]                                    # default: none; only moments are stored
[sweep.histograms]
tv = {start = 0.0, stop = 1.0, num = 101}                # the edges of the bins: public numbers, independent of the samples
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import pathlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pydantic

from dpjax._errors import InputError
from dpjax.sweep.grid import Grid, Table, axis_values, refuse_unknown, validated
from dpjax.sweep.workload import Quantity, Scalar, Workload

_UNITS = {"": 1, "B": 1} | {f"{p}{b}": base**i for b, base in (("B", 1000), ("iB", 1024)) for i, p in enumerate("KMGT", 1)}


def parse_memory(value: Any) -> int:
    """A number of bytes from a whole number or a text such as "256 MiB"."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?i?B|)\s*", str(value)) if not isinstance(value, bool) else None
    if match is None or match[2] not in _UNITS or float(match[1]) * _UNITS[match[2]] < 1:
        raise InputError("memory", f"is {value!r}", "give bytes, or a text such as '256 MiB'")
    return int(float(match[1]) * _UNITS[match[2]])


def _block(value: Any) -> int | None:
    if value is None or value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**24:
        raise InputError("block", f"is {value!r}", f"give 'auto' or a whole number of samples from 1 to {2**24}")
    return value


def _devices(value: Any) -> int | None:
    if value is None or value == "all":
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError("devices", f"is {value!r}", "give 'all' or a whole number of devices, at least 1")
    return value


class SweepTable(Table):
    """[sweep]: the samples and the grid."""

    samples: pydantic.StrictInt = pydantic.Field(ge=0, lt=2**31)
    seed: pydantic.StrictInt = pydantic.Field(default=0, ge=0, lt=2**63)
    block: Annotated[Any, pydantic.BeforeValidator(_block)] = None
    memory: Annotated[Any, pydantic.BeforeValidator(parse_memory)] = 512 * 2**20
    devices: Annotated[Any, pydantic.BeforeValidator(_devices)] = None
    measures: list[str] | None = pydantic.Field(default=None, min_length=1)
    keep_samples: list[str] = pydantic.Field(default_factory=list)
    histograms: dict[str, Any] = pydantic.Field(default_factory=dict)
    axes: dict[str, Any] = pydantic.Field(default_factory=dict)
    zip: list[list[str]] = pydantic.Field(default_factory=list)

    @pydantic.field_validator("axes")
    @classmethod
    def _listed(cls, axes: dict[str, Any]) -> dict[str, tuple[Scalar, ...]]:
        return {name: axis_values(f"sweep.axes.{name}", spec) for name, spec in axes.items()}

    @pydantic.field_validator("histograms")
    @classmethod
    def _edged(cls, histograms: dict[str, Any]) -> dict[str, tuple[Scalar, ...]]:
        return {name: axis_values(f"sweep.histograms.{name}", spec) for name, spec in histograms.items()}

    @pydantic.model_validator(mode="after")
    def _gridded(self) -> SweepTable:
        _ = self.grid.size
        return self

    @property
    def grid(self) -> Grid:
        """The grid of the axes and zips."""
        return Grid(axes=self.axes, zips=tuple(tuple(group) for group in self.zip))


class OutputTable(Table):
    """[output]: the folder of the results."""

    dir: str | None = None

    @pydantic.field_validator("dir")
    @classmethod
    def _at_home(cls, dir: str | None) -> str | None:
        return None if dir is None else os.path.expanduser(dir)


class Config(Table):
    """A whole config; `data` and `mechanism` stay tables, which the reader of the data and the workload check."""

    name: str = pydantic.Field(min_length=1)
    workload: str = pydantic.Field(min_length=1)
    data: dict[str, Any] = pydantic.Field(default_factory=dict)
    mechanism: dict[str, Any] = pydantic.Field(default_factory=dict)
    sweep: SweepTable
    output: OutputTable = pydantic.Field(default_factory=OutputTable)

    @pydantic.field_validator("name")
    @classmethod
    def _of_a_folder(cls, name: str) -> str:
        if re.search(r"[/\\]|^\.", name) or not name.isprintable():
            raise InputError(
                "name", f"is {name!r}", "it names the folder of the results: no / or \\, no leading dot, only printable characters"
            )
        return name


def load_config(path: str | pathlib.Path, overrides: Iterable[str] = ()) -> Config:
    """The config in a TOML file, after `overrides` such as "sweep.samples=100".

    Args:
        path: a TOML file.
        overrides: texts of the form key=value, applied in order.

    Raises:
        InputError: the first fault in the file or in an override.

    Example:
        >>> config = dpjax.sweep.load_config("grades.toml", ["sweep.samples=100"])
    """
    try:
        table = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError("config", f"is {str(path)!r}", f"it cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError("config", f"is {str(path)!r}", f"it is not TOML: {error}") from None
    return from_table(table, overrides)


def from_table(table: Mapping[str, Any], overrides: Iterable[str] = ()) -> Config:
    """The config in a parsed table, after `overrides`."""
    table, given = dict(table), list(overrides)
    for override in given:
        table = _override(table, override)
    config = validated(Config, table)
    for override in given:
        key = override.partition("=")[0].strip()
        name = key.removeprefix("mechanism.")
        if name != key and name in config.sweep.axes:
            raise InputError("--set", f"is {override!r}", f"{name} is an axis, which would override it: set sweep.axes.{name}")
    return config


def _override(table: dict[str, Any], text: str) -> dict[str, Any]:
    key, equals, value = text.partition("=")
    steps = key.strip().split(".")
    if not equals or not all(re.fullmatch(r"[A-Za-z0-9_-]+", step) for step in steps):
        raise InputError("--set", f"is {text!r}", "write it as key=value, such as sweep.samples=100")
    return _put(table, steps, _value(value.strip()), key.strip())


def _put(table: dict[str, Any], steps: list[str], value: Any, key: str) -> dict[str, Any]:
    if len(steps) == 1:
        return table | {steps[0]: value}
    inner = table.get(steps[0], {})
    if not isinstance(inner, dict):
        raise InputError("--set", f"is {key!r}", f"{steps[0]} is a value, not a table")
    return table | {steps[0]: _put(inner, steps[1:], value, key)}


def _value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if list(parsed) == ["value"] else text


_SAMPLE_BYTES = 8


@dataclasses.dataclass(frozen=True)
class Chosen:
    """The chosen measures, by name, with the edges of their bins; `kept` names the measures whose samples are stored."""

    taken: tuple[tuple[str, Quantity], ...]
    kept: tuple[str, ...] = ()

    @classmethod
    def of(cls, workload: Workload, sweep: SweepTable | None = None) -> Chosen:
        """The measures that [sweep] chooses (None: all, without bins); raises InputError for a wrong name or edge."""
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
        """The chosen measures, by name."""
        return dict(self.taken)

    def law(self, sweep: SweepTable) -> dict[str, Any]:
        """The part of the choice that changes the stored results; empty if the config chooses nothing."""
        said = {
            "measures": None if sweep.measures is None else sorted(self.measures),
            "keep_samples": list(self.kept),
            "histograms": {name: list(self.measures[name].edges) for name in sweep.histograms},
        }
        return {key: value for key, value in said.items() if value}

    def bytes_a_sample(self, workload: Workload) -> int:
        """The stored size of the kept measures of one sample, in bytes."""
        sizes = {dim: len(coordinate.values) for dim, coordinate in workload.coordinates.items()}
        return _SAMPLE_BYTES * sum(math.prod(sizes[dim] for dim in self.measures[name].dims) for name in self.kept)


def _increasing(name: str, edges: tuple[Any, ...]) -> tuple[float, ...]:
    numbers = all(isinstance(edge, int | float) and not isinstance(edge, bool) for edge in edges)
    if not numbers or any(a >= b for a, b in itertools.pairwise(edges)):
        raise InputError(f"sweep.histograms.{name}", f"is {list(edges)}", "give increasing numbers, the edges of the bins")
    return tuple(float(edge) for edge in edges)
