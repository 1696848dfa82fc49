"""What a release will cost, told before the data are read: a function of public numbers alone.

For rows of several sizes: the expected error (total variation) of the form chosen, of discrete Laplace counts at the same epsilon,
and of the uniform row, which costs nothing, on the reference row of `reference`. Then what coarser states would do: merging states
by twos halves the cells of a row, and its pseudo-records, and doubles its records.
"""

from __future__ import annotations

from dpjax.release.forms import Form
from dpjax.release.reference import laplace_error, uniform_error

SIZES = (10, 100, 1_000, 10_000, 100_000)


def price(form: Form, *, cells: int, row_records: float) -> list[str]:
    """The lines to print; cells and row_records are the public planning figures of the typical row."""
    head = form.price_head(cells)
    if form.persons is not None:
        head += f" Persons are protected: {form.persons.in_words()}; what that leaves out is no part of the errors below."
    return [head, *_table(form, cells), *_coarser(form, cells, row_records)]


def _table(form: Form, cells: int) -> list[str]:
    head = f"Expected error of a row (total variation, 0 to 1; shares falling as 1/rank over {cells} cells):"
    lines = [head, f"{'records in the row':>20}{'this release':>14}{'discrete Laplace':>18}{'uniform, free':>15}  best"]
    for n in SIZES:
        errors = {
            "this release": form.expected_error(n, cells),
            "discrete Laplace": laplace_error(n, cells, form.epsilon, form.l1),
            "the uniform row": uniform_error(cells),
        }
        best = min(reversed(errors), key=lambda name: errors[name])  # where all are alike, the one that is free
        lines.append(f"{n:>20,}{''.join(f'{e:>{w}.3f}' for e, w in zip(errors.values(), (14, 18, 15), strict=True))}  {best}")
    lines.append(
        "Discrete Laplace: two-sided geometric noise on every count, pure epsilon, floored at 1/2 and renormalised; simulated on"
        " invented rows."
    )
    return lines


def _coarser(form: Form, cells: int, row_records: float) -> list[str]:
    """What fewer, coarser states would cost at the same guarantee."""
    lines = ["Coarser states, merged by twos, fours and eights (a merged row holds that many times the records):"]
    sizes = {-(-cells // merged): row_records * merged for merged in (8, 4, 2, 1)}
    for fewer, records in reversed(sizes.items()):
        if fewer >= 2:
            other = form.coarser(fewer, records)
            lines.append(f"{fewer:>8} cells: error {other.expected_error(records, fewer):.3f} at {records:,.0f} records")
    return lines
