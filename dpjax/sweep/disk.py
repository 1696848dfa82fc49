"""What the samples that a sweep keeps take on the disk, held against what is free there before anything is computed.

They are stored twice: in the cells' files, and in the results, which a run of the whole grid assembles.
"""

from __future__ import annotations

import pathlib
import shutil

from dpjax import _atomic as atomic
from dpjax.sweep.planning import Plan
from dpjax.sweep.store import Store


def kept(plan: Plan) -> int:
    """Bytes of the samples that the plan's cells keep, stored once."""
    return len(plan.cells) * _a_cell(plan)


def too_small(plan: Plan) -> str:
    """What is wrong with the disk: a sentence, or nothing where the samples still to be stored fit."""
    if not _a_cell(plan):
        return ""
    store = Store(directory=plan.directory, digest="")
    missing = sum(not store.finished(cell).exists() for cell in plan.cells)
    results = kept(plan) if plan.shard.total == 1 and not (missing == 0 and store.results.exists()) else 0
    wanted, free = missing * _a_cell(plan) + results, _free(plan.directory)
    if wanted <= free:
        return ""
    return (
        f"the samples that sweep.keep_samples keeps take {in_words(wanted)} more on the disk of {str(plan.directory)!r}, which has "
        f"{in_words(free)} free; keep fewer, or choose another folder"
    )


def refuse_too_small(plan: Plan) -> None:
    """ValueError where the kept samples that are still to be stored do not fit on the disk."""
    fault = too_small(plan)
    if fault:
        raise ValueError(fault)


def in_words(size: int) -> str:
    """Bytes as KiB, MiB or GiB."""
    unit, name = next(((2**power, name) for power, name in ((30, "GiB"), (20, "MiB")) if size >= 2**power), (2**10, "KiB"))
    return f"{size / unit:,.1f} {name}"


def _a_cell(plan: Plan) -> int:
    return plan.samples * plan.chosen.bytes_a_sample(plan.workload) if plan.chosen.kept else 0


def _free(directory: pathlib.Path) -> int:
    """Free bytes where `directory` is, or would be made."""
    there = next(folder for folder in (directory.absolute(), *directory.absolute().parents) if folder.exists())
    with atomic.reading(there):
        return shutil.disk_usage(there).free
