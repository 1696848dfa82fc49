"""Counts of the grades A, B, C, D, F: an invented class of 98, and sections of published grade distributions.

Two layouts are read: exact counts (columns A, B, C, D, F and W for withdrawn), and counts inferred from percentages rounded to
whole percents (A_n ... F_n, W_n, N_inferred beside A_pct ...). Percentages may fit several class sizes. Such a section has no
inferred counts. It is left out, or on request it gets the smallest size that fits.
"""

from __future__ import annotations

import pathlib
import re
from collections import Counter

import numpy as np

from dpjax._errors import invalid, require
from dpjax._values import text_of
from dpjax.datasets.dataset import Dataset, ReadReport
from dpjax.datasets.tables import rows
from dpjax.datasets.text import PathLike, check_width, find_column, invalid_file, number, whole_number

GRADES = ("A", "B", "C", "D", "F")
INVENTED = (38, 29, 15, 8, 8)
_OTHER = ("i", "nr", "s", "u", "v")  # incomplete, not reported, satisfactory, unsatisfactory, audit


def grades() -> Dataset:
    """Grades of an invented class of 98: A 38, B 29, C 15, D 8, F 8. The first paper has this size but does not publish its grades."""
    return _dataset(
        np.array(INVENTED, dtype=np.int64),
        name="grades (synthetic)",
        source="Synthetic grades of an invented class of 98: A 38, B 29, C 15, D 8, F 8.",
        report=ReadReport(read=98, kept=98, unit="grades"),
        synthetic=True,
    )


def read_grades(
    path: PathLike,
    *,
    term: str | int | None = None,
    course: str | int | None = None,
    section: str | int | None = None,
    ambiguous: str = "drop",
) -> Dataset:
    """Counts (5,) of A, B, C, D, F, summed over the chosen sections. Withdrawn and other marks are dropped and reported.

    Args:
        path: a CSV of grade distributions.
        term, course: values of these columns; None for all.
        section: the value of the column Section or crn; None for all. Letters alone, as "D", choose a lecture with its sections D1, D2, ...
        ambiguous: for percentages that fit several class sizes: "drop" the section, or take the "smallest" size that fits.
    """
    require(ambiguous in ("drop", "smallest"), "ambiguous", ambiguous, "choose drop or smallest")
    table = rows(path)
    header = [name.lower() for name in next(table, (0, list[str]()))[1]]
    wanted = {"term": term, "course": course, "section": section}
    total: Counter[str] = Counter()
    left_out: list[str] = []
    for line, cells in table:
        check_width(path, line, cells, len(header))
        if not _chosen(path, header, cells, wanted):
            continue
        found = _section(path, line, dict(zip(header, cells, strict=True)), ambiguous)
        total.update(found or {})
        if found is None:
            left_out.append(_section_name(path, header, cells))
    return _from_marks(path, total, left_out, wanted)


def _from_marks(path: PathLike, total: Counter[str], left_out: list[str], wanted: dict[str, str | int | None]) -> Dataset:
    counts = np.array([total[grade] for grade in GRADES], dtype=np.int64)
    asked = ", ".join(f"{name} {value}" for name, value in wanted.items() if value is not None) or "all sections"
    if counts.sum() == 0:
        invalid(f"{path}: the choice", asked, "no section with known counts matches it; see the file's terms and sections")
    notes = (f"Left out, since several class sizes fit their percentages: {', '.join(left_out)}.",) if left_out else ()
    dropped = {"withdrawn": total["W"], "incomplete or otherwise ungraded": total["other"]}
    report = ReadReport(read=sum(total.values()), kept=int(counts.sum()), dropped=dropped, unit="marks", notes=notes)
    source = f"{report.kept:,} grades, {asked}, from {pathlib.Path(path).name}."
    return _dataset(counts, name="grades", source=source, report=report, synthetic=False)


def _dataset(counts: np.ndarray, *, name: str, source: str, report: ReadReport, synthetic: bool) -> Dataset:
    return Dataset(name=name, labels=GRADES, synthetic=synthetic, source=source, report=report, counts=counts)


def _chosen(path: PathLike, header: list[str], cells: list[str], wanted: dict[str, str | int | None]) -> bool:
    for name, value in wanted.items():
        if value is None:
            continue
        if name == "section":
            found, asked = _section_name(path, header, cells), text_of(value)
            if found != asked and not (asked.isalpha() and re.fullmatch(f"{asked}[0-9]+", found)):
                return False
        elif cells[find_column(path, header, name, (name,))] != text_of(value):
            return False
    return True


def _section_name(path: PathLike, header: list[str], cells: list[str]) -> str:
    return cells[find_column(path, header, "section", ("section", "crn"))]


def _section(path: PathLike, line: int, cells: dict[str, str], ambiguous: str) -> dict[str, int] | None:
    """The marks of one section: the grades, W, and `other`; None if its counts are not known."""
    names = {grade: next((n for n in (f"{grade.lower()}_n", grade.lower()) if n in cells), "") for grade in (*GRADES, "W")}
    for grade in GRADES:
        find_column(path, list(cells), f"grade {grade}", (names[grade] or f"{grade.lower()}_n", grade.lower()))
    if not any(cells[names[grade]] for grade in GRADES):
        return _smallest(path, line, cells) if ambiguous == "smallest" else None
    marks = {grade: whole_number(cells[name], path, line, f"the number of {grade}") for grade, name in names.items() if name}
    size = cells.get("n_inferred")
    known = sum(marks.values())
    if size:
        marks["other"] = whole_number(size, path, line, "the class size") - known
        require(marks["other"] >= 0, f"{path}, line {line}: the class size", size, f"its marks already add up to {known}")
    return marks


def _smallest(path: PathLike, line: int, cells: dict[str, str]) -> dict[str, int]:
    """The marks at the smallest class size in the stated range that fits every rounded percentage."""
    marks = (*(grade.lower() for grade in GRADES), "w", *_OTHER)
    percents = np.array(
        [number(cells[f"{m}_pct"], path, line, f"the percentage of {m.upper()}") for m in marks if f"{m}_pct" in cells]
    )
    names = [mark for mark in marks if f"{mark}_pct" in cells]
    low, high = _size_range(cells.get("class size", ""))
    for size in range(low, high + 1):
        found = np.rint(percents * size / 100).astype(int)
        if found.sum() == size and np.all(np.abs(100 * found / size - percents) <= 0.5):
            break
    else:
        invalid_file(path, f"line {line}: no class of {low} to {high} has these percentages", "leave the section out")
    by_name = dict(zip(names, found.tolist(), strict=True))
    graded = {grade: by_name[grade.lower()] for grade in GRADES}
    return {**graded, "W": by_name.get("w", 0), "other": sum(by_name.get(name, 0) for name in _OTHER)}


def _size_range(text: str) -> tuple[int, int]:
    """The range of sizes: (10, 20) from `Small (10-20 students)`, (1, 9) from `Very Small (Fewer than 10 students)`, else (1, 100)."""
    numbers = [int(found) for found in re.findall("[0-9]+", text)]
    if len(numbers) == 2:
        return numbers[0], numbers[1]
    return (1, numbers[0] - 1) if numbers and "fewer" in text.lower() else (1, 100)
