"""`python -m benchmarks.accepting`: run each case of the table in docs/reading.md and print its outcome before and now.

"Before" is the recorded outcome of commit 86c4aa9; "now" is the outcome of running the case. The exit code is 1 if a case has the wrong
outcome. `tests/accepting/test_table.py` runs the same cases.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from scipy import sparse


class Case(NamedTuple):
    """A line of the table: the input, the outcome before, the right outcome, and a function that gives (right or not, outcome as text)."""

    given: str
    before: str
    right: str
    run: Callable[[pathlib.Path], tuple[bool, str]]


def refusal(call: Callable[[], Any], *words: str) -> tuple[bool, str]:
    """(whether the call raises a ValueError that contains all words, the outcome as text)."""
    try:
        found = call()
    except ValueError as error:
        said = str(error).replace(str(pathlib.Path(tempfile.gettempdir())), "")
        return all(word in said for word in words), f"refused: {said}"
    return False, f"accepted: {found!r}"


def write(folder: pathlib.Path, name: str, content: str | bytes) -> pathlib.Path:
    """Write a file into the folder of the case and return its path."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def command(*arguments: Any) -> tuple[int, str, str]:
    """Run the command in this process; returns (exit code, standard output, standard error)."""
    from dpjax.cli import main

    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue(), errors.getvalue()


def _release_of_floats(folder: pathlib.Path) -> tuple[bool, str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpjax.release import read_records

    text = write(folder, "t.csv", "from,to\n1.0,2.0\n2.0,3.0\n3.0,1.0\n")
    pq.write_table(pa.table({"from": [1.0, 2.0, 3.0], "to": [2.0, 3.0, 1.0]}), folder / "t.parquet")
    found, other = (read_records(path, ("1", "2", "3"), outside="drop") for path in (text, folder / "t.parquet"))
    return found.counts == other.counts and sum(found.counts.values()) == 3, f"{sum(found.counts.values())} records used"


def _persons(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax.counts import PersonBound
    from dpjax.release import PersonColumn, read_records

    rows = "".join(f"a,b,{who}\n" for who in ("1", " 1", "1.0", "NaN", "nan", "NULL"))
    found = read_records(write(folder, "p.csv", f"from,to,who\n{rows}"), ("a", "b"), persons=PersonColumn("who", PersonBound(1)))
    gone = dict(found.dropped)
    return sum(found.counts.values()) == 1 and gone.get(
        "without a person"
    ) == 3, f"{sum(found.counts.values())} record kept; dropped {gone}"


def _zones(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax.datasets import read_od_counts

    path = write(folder, "z.csv", "PULocationID,DOLocationID,count\n1,2,3\n1.0,2,4\n264.0,1,9\n2,1,1\n")
    data = read_od_counts(path)
    right = data.labels == (1, 2) and data.counts.tolist() == [[0, 7], [1, 0]]
    return right, f"states {data.labels}, {data.report.summary()}"


def _aligned(folder: pathlib.Path) -> tuple[bool, str]:
    import pandas as pd

    from dpjax import MarkovChain

    chain = MarkovChain.from_matrix(pd.DataFrame([[0.1, 0.9], [0.6, 0.4]], index=["A", "B"], columns=["B", "A"]))
    share = float(chain.stationary_distribution()[chain.index("A")])
    counts = pd.DataFrame([[1, 2], [3, 4]], index=["x", "y"], columns=["y", "z"])
    refused = refusal(lambda: MarkovChain.from_counts(counts), "'x'", "'z'")
    return abs(share - 0.8) < 1e-12 and refused[0], f"pi_A {share:.3f}; counts {refused[1]}"


def _sequences(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax.datasets import read_sequences

    path = write(folder, "s.csv", "home\nhome;bags, shoes;pay\n")
    asked = refusal(lambda: read_sequences(path), "comma and semicolon")
    data = read_sequences(path, format={"separator": ";"})
    return asked[0] and data.labels == ("bags, shoes", "home", "pay"), f"{asked[1]} With separator ';': {data.labels}"


def _header(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax.datasets import read_pairs

    data = read_pairs(write(folder, "h.csv", "prev,curr\nA,B\nB,A\n"))
    unknown = refusal(lambda: read_pairs(write(folder, "u.csv", "here,there\nA,B\nB,A\n")), "header=True")
    return data.labels == ("A", "B") and data.report.kept == 2 and unknown[
        0
    ], f"{data.report.kept} transitions; unknown names {unknown[1]}"


def _quotes(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax.datasets import read_pairs

    path = write(folder, "q.tsv", 'a\tb\n"Heroes"\ta\nHeroes\tb\n"Low\tHeroes\nb\t"Heroes"\n')
    data = read_pairs(path)
    return (
        data.report.kept == 5 and '"Heroes"' in data.labels and "Heroes" in data.labels,
        f"{data.report.kept} rows, states {data.labels}",
    )


def _one_sequence(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax import MarkovChain

    one = refusal(lambda: MarkovChain.from_trajectories(["LAX", "AXL", "XLA"]), "list of sequences")
    two = refusal(lambda: MarkovChain.from_trajectories([0, 1, 0]), "list of sequences")
    return one[0] and two[0], f"{one[1]} / {two[1]}"


def _nan_states(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax import MarkovChain

    return refusal(lambda: MarkovChain.from_trajectories([["a", float("nan"), "b", float("nan"), "a"]]), "missing")


def _labels_header(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax.release import read_public_labels

    path = write(folder, "l.csv", "zone\n1\n2\n3\n")
    asked = refusal(lambda: read_public_labels(path), "header")
    return asked[0] and read_public_labels(path, {"header": "yes"}) == ("1", "2", "3"), asked[1]


def _minus_zero(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax.datasets import read_od_counts

    data = read_od_counts(write(folder, "m.csv", "from,to,count\n-0,0,3\n0,-0,4\n0,0,5\n"))
    return data.labels == ("-0", "0") and data.counts.sum() == 12, f"states {data.labels}, {data.counts.sum()} transitions"


def _home(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax.sweep.config import from_table

    table = {"name": "x", "workload": "dirichlet-vector", "sweep": {"samples": 2}, "output": {"dir": "~/x"}}
    with mock.patch.dict(os.environ, {"HOME": str(folder)}):
        found = from_table(table).output.dir
    return found == str(folder / "x"), "the home directory" if found == str(folder / "x") else str(found)


def coupled(n: int, coupling: float) -> sparse.csr_array:
    """A chain of three rings of n / 3 states, coupled in a circle."""
    k = n // 3
    rows, columns, values = [], [], []
    for block in range(3):
        for i in range(k):
            for step, share in ((0, 0.3), (1, 0.5), (-1, 0.2)):
                rows.append(block * k + i)
                columns.append(block * k + (i + step) % k)
                values.append(share - (coupling if i == 0 and step == 0 else 0))
        rows.append(block * k)
        columns.append((block + 1) % 3 * k)
        values.append(coupling)
    return sparse.csr_array((values, (rows, columns)), shape=(3 * k, 3 * k))


def _coupled(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax import MarkovChain

    shares = [MarkovChain.from_matrix(coupled(3000, c)).stationary_distribution()[:1000].sum() for c in (1e-15, 1e-16)]
    return all(abs(share - 1 / 3) < 1e-9 for share in shares), f"{shares[0]:.10f}; {shares[1]:.10f}"


def _closed(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax import MarkovChain

    P = np.array([[0.4, 0.3, 0.2, 0.1, 0], [0.3, 0.4, 0.3, 0, 0], [0.3, 0.3, 0.4, 0, 0], [0, 0, 0, 0.5, 0.5], [0, 0, 0, 0.2, 0.8]])
    chain = MarkovChain.from_matrix(P, labels=list("abcde"))
    said = refusal(chain.require_irreducible, "{'d', 'e'}", "closed_class()")
    return said[0] and chain.closed_class().labels == ("d", "e"), said[1]


def _columns(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax import MarkovChain

    return refusal(lambda: MarkovChain.from_matrix([[0.9, 0.3], [0.1, 0.7]]), "columns sum to 1: transpose it")


def _door(folder: pathlib.Path) -> tuple[bool, str]:
    import jax

    from dpjax import DirichletMechanism, chains
    from dpjax.release import Plan

    time = chains.mixing_time(sparse.csr_array(np.array([[0.9, 0.1], [0.1, 0.9]])))
    m = DirichletMechanism(k=20.6, eta=0.073, n_records=98, n_categories=5)
    shares = [0.39, 0.30, 0.15, 0.08, 0.08]
    whole = refusal(lambda: m.privatize(0, shares), "jax.random.key")
    split = refusal(lambda: m.privatize(jax.random.split(jax.random.key(0), 2), shares), "jax.vmap")
    plan = refusal(lambda: Plan.make((1, 2), epsilon=1.0, delta=0.1), "labels")
    return time == 4 and whole[0] and split[0] and plan[0], f"mixing time {time}; {whole[1]} / {split[1]} / {plan[1]}"


def _tlc(folder: pathlib.Path) -> tuple[bool, str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dpjax.datasets import read_tlc_trips

    pq.write_table(pa.table({"PULocationID": [1.0, float("nan"), 2.0], "DOLocationID": [2.0, 1.0, 1.0]}), folder / "n.parquet")
    data = read_tlc_trips(folder / "n.parquet")
    legacy = write(folder, "trips.csv", "VendorID,PULocationID,DOLocationID\n1,1,2\n")
    said = refusal(lambda: read_tlc_trips(legacy), "text")
    return data.report.dropped["without a pickup or drop-off zone"] == 1 and said[0], f"{data.report.summary()} A CSV is {said[1]}"


def _line_ends(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax.datasets import read_pairs

    files = ("a,b\rb,a\ra,b\r", "sep=;\na;b\nb;a\na;b\n", "a b\nb a\na b\n")
    counts = [read_pairs(write(folder, f"e{i}.csv", text)).counts.tolist() for i, text in enumerate(files)]
    return counts == [[[0, 2], [1, 0]]] * 3, "read, 3 transitions each" if counts == [[[0, 2], [1, 0]]] * 3 else str(counts)


def _set_axis(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax.sweep.config import from_table

    table = {"name": "x", "workload": "dirichlet-vector", "sweep": {"samples": 2, "axes": {"epsilon": [1.0, 2.0]}}}
    return refusal(lambda: from_table(table, ["mechanism.epsilon=7"]), "sweep.axes.epsilon")


def _read_back(folder: pathlib.Path) -> tuple[bool, str]:
    import pandas as pd

    from dpjax.release import Plan, Records, write_release

    plan = Plan.make(("NA", "007", "b"), epsilon=1.0, delta=0.02, row_records=50)
    write_release(plan.draw(Records()), plan.statement(), folder / "out")
    line = next(line for line in _readme().splitlines() if "pandas.read_csv(" in line)
    text = line[line.index("pandas.read_csv(") :].split("`")[0].replace("release/model.csv", str(folder / "out" / "model.csv"))
    frame = eval(text, {"pandas": pd})  # exactly the line of the README
    return list(frame.index) == list(frame.columns) == ["NA", "007", "b"], f"{list(frame.index)} by {text.split('/')[-1]}"


def _readme() -> str:
    return (pathlib.Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def _dead_ends(folder: pathlib.Path) -> tuple[bool, str]:
    from dpjax.cli.privatize_trajectory import read_public_chain
    from dpjax.datasets import read_od_counts, read_probability_matrix

    od = write(folder, "z.csv", "PULocationID,DOLocationID,count\n1,1,3\n1,2,4\n")
    zones = read_od_counts(od, zones=["1"])
    ratings = write(folder, "r.csv", "from,A,B,C\nA,450,40,10\nB,20,70,10\n")
    said = refusal(lambda: read_probability_matrix(ratings), "no_row='default'")
    data = read_probability_matrix(ratings, no_row="default")
    chain = read_public_chain(write(folder, "d.csv", "from,A,B,D\nA,450,40,10\nB,20,70,10\nD,0,0,0\n"), "rating-matrix")
    right = zones.counts.tolist() == [[3]] and said[0] and data.labels == ("A", "B", "C") and chain.labels == ("A", "B", "D")
    return right, f"zones {zones.labels}; {said[1]} --source rating-matrix: {chain!r}"


def _almost_none(folder: pathlib.Path) -> tuple[bool, str]:
    labels, records = write(folder, "labels.csv", "a\nb\n"), write(folder, "r.csv", "from,to\n" + "Zone a,Zone b\n" * 200 + "a,b\n")
    base = ("privatize-model", records, "--labels", labels, "--epsilon", 1, "--delta", 0.01, "--outside", "drop")
    code, said, errors = command(*base, "--dry-run")
    silent = code == 0 and said.startswith("PRIVATE") and "records used: 1 " in said and "records used" not in errors
    return silent and len(list(folder.iterdir())) == 2, f"--dry-run, to the data holder alone: {said.splitlines()[4]}, nothing made"


CASES = [
    Case("release, CSV from,to / 1.0,2.0, labels 1, 2, 3, --outside drop", "no record used, budget spent", "3 records", _release_of_floats),
    Case("persons `1`, ` 1`, `1.0`; NaN, nan, NULL", "two persons and three more", "one canonical identifier; missing is no person", _persons),
    Case("264.0, 1 and 1.0 in a zone column", "264 kept as a state, 1 and 1.0 two states", "unknown dropped, one state", _zones),
    Case("from_matrix(frame), rows A, B, columns B, A; counts, rows x, y, columns y, z", "labels ignored: pi_A .4", "pi_A .8, refused", _aligned),
    Case("sequences home / home;bags, shoes;pay", "states home;bags and shoes;pay", "decided from all lines, or asked for", _sequences),
    Case("pairs under prev,curr", "states prev and curr, 3 transitions", "2 transitions; else a question", _header),
    Case("TSV cells that begin with a double quote", "rows in between become one label; \"Heroes\" and Heroes merge", "5 of 5 rows", _quotes),
    Case('from_trajectories(["LAX", ...]); [0, 1, 0]', "a chain of letters; a raw TypeError", "refused: give a list of sequences", _one_sequence),
    Case("NaN among states", "every NaN a state of its own", "refused or dropped, and said", _nan_states),
    Case("a labels file with a header line", "the header is a state", "recognised or refused", _labels_header),
    Case("labels -0 and 0", "one overwrites the other's count", "two labels, or refused", _minus_zero),
    Case('[output] dir = "~/x"', "computes into ./~/x, then fails", "the home directory", _home),
    Case("sparse chain of 3,000 states, coupling 1e-15; 1e-16", ".3075 for 1/3; a raw RuntimeError", "1/3, or a refusal", _coupled),
    Case("advice for a reducible chain", "largest_class(), which may be transient", "a closed class", _closed),
    Case("columns that sum to 1", "divide it by its sum", "the columns sum to 1: transpose it", _columns),
    Case("mixing_time(csr), an int as key, split keys, Plan.make((1, 2))", "errors from inside, or late", "an error at the call", _door),
    Case("NaN zones or a legacy CSV as TLC trips", "no whole parquet file, fetch it again", "what is wrong with it", _tlc),
    Case("CR line ends; sep=; as a first line; spaces", "refused: broken quotes, no transition", "read, or the fault named", _line_ends),
    Case("--set mechanism.epsilon=7 where epsilon is an axis", "silently ignored", "refused", _set_axis),
    Case("a released matrix with labels NA and 007, by the README's line", "NaN and 7", "a line that keeps them", _read_back),
    Case("a release that would use almost none of the records", "exit 0 without a warning", "a warning to the data holder alone", _almost_none),
    Case('zones=["1"]; a class with a column and no row; --source rating-matrix', "errors without a remedy", "read, or a remedy", _dead_ends),
]  # fmt: skip


def main() -> int:
    """Print the table. Returns 1 if a case has the wrong outcome."""
    wrong = 0
    for number, case in enumerate(CASES, start=1):
        with tempfile.TemporaryDirectory() as folder:
            try:
                right, now = case.run(pathlib.Path(folder))
            except Exception as error:  # a case that raises is also a line of the table
                right, now = False, f"{type(error).__name__}: {error}"
        wrong += not right
        print(
            f"{number:>2}. {case.given}\n    before: {case.before}\n    right:  {case.right}\n    now:    {now}{'' if right else '   <- WRONG'}",
            flush=True,
        )
    print(f"{len(CASES) - wrong} of {len(CASES)} cases have the right outcome.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
