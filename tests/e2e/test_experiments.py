"""The scripts behind the figures: what they compute is what the pages say, on the smallest inputs that show it."""

import csv
import pathlib
import sys

import numpy as np
import pytest

import dpjax
from dpjax.chains import MarkovChain
from dpjax.counts import DiscreteLaplaceMechanism
from dpjax.counts.postprocess import expected_kl_floored
from dpjax.trajectory import kappa, substitution_epsilon
from experiments import accountants, calibration, every
from experiments.reproduction import Row


def expected_kl(counts, epsilon):
    return expected_kl_floored(counts, DiscreteLaplaceMechanism(epsilon=epsilon).pmf)


def test_geometric_noise_has_the_divergence_of_its_draws():
    """20,000 draws, five standard errors (one failure in 1.7 million runs); noise of half the scale falls outside."""
    counts, rng, draws = np.array([39, 29, 15, 8, 7]), np.random.default_rng(0), 20_000
    p = 1 - np.exp(-0.5)
    noise = rng.geometric(p, (draws, 5)) - rng.geometric(p, (draws, 5))
    x = np.maximum(counts + noise, 0.5)
    shares = counts / counts.sum()
    divergence = (shares * np.log(shares * x.sum(axis=1, keepdims=True) / x)).sum(axis=1)
    error = divergence.std() / np.sqrt(draws)
    assert abs(divergence.mean() - expected_kl(counts, 1.0)) < 5 * error
    assert abs(divergence.mean() - expected_kl(counts, 2.0)) > 5 * error
    found = [expected_kl(counts, epsilon) for epsilon in (0.5, 0.63, 1.0, 2.255)]
    np.testing.assert_allclose(found, [0.066, 0.044, 0.018, 0.0027], atol=5e-4)


def test_the_accountants_figure_and_its_table(tmp_path):
    assert accountants.run(tmp_path, None) == []
    with (tmp_path / "accountants" / "k.csv").open(newline="", encoding="utf-8") as file:
        rows = {float(row["epsilon"]): [float(k) for k in list(row.values())[1:]] for row in csv.DictReader(file)}
    printed, best, exact = rows[2.255]
    assert exact == pytest.approx(249.197276417580, rel=1e-9)
    assert 20.6 < printed < best < 22.1
    assert rows[0.3] == [0.0, 0.0, 0.0]  # nothing is possible there at this delta
    assert (tmp_path / "accountants" / "accountants-kl.png").stat().st_size > 10_000
    assert "| (2.255, 0.0026) | 22.00 | 249.2 | 0.0970 | 0.0081 |" in accountants.table(np.array([38, 29, 15, 8, 8]))


def test_calibrated_mechanisms_keep_their_promise():
    chain = MarkovChain.from_matrix(np.array([[0.92, 0.05, 0.03], [0.04, 0.91, 0.05], [0.01, 0.09, 0.90]]))
    for adjacency in ("average", "max"):
        before, after = calibration.pair(chain, adjacency, 1.0)
        assert after.scale > 1.4 * before.scale
        assert kappa(after, before.adjacency.symmetrised(before.graph.all_distances())) <= 1.0
    before, after = calibration.pair(chain, "Hamming", 1.0)
    assert 0.99 < substitution_epsilon(after) <= 1.0
    rows = list(calibration.gains("three", chain))
    assert [row[2:4] for row in rows] == [(a, e) for a in ("average", "max", "Hamming") for e in ("0.1", "1", "10")]
    assert all(float(row[4]) >= 1 for row in rows)


@pytest.fixture
def toys(monkeypatch):
    """Experiments that compute nothing, in the place of all, in this process; the order in which they ran."""
    ran = []

    def toy(name):
        def run(out, data):
            ran.append(name)
            print(f"== {name}")
            if name in every.WRITING:
                return [pathlib.Path(out, f"{name}.png")]
            return [Row(id=f"B{len(name)}", quantity=name, published="", ours="", data="", why="")]

        return run

    monkeypatch.setattr(every, "IN_ORDER", {name: toy(name) for name in every.IN_ORDER})
    monkeypatch.setattr(dpjax, "enable_compilation_cache", lambda: None, raising=False)
    return ran


def test_the_last_line_says_where_to_look_and_the_grades_come_first(toys, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["experiments", "--out", str(tmp_path), "--processes", "1"])
    every.main()
    assert toys[0] == "grades"
    assert sorted(toys) == sorted(every.IN_ORDER)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"Done. Begin with {tmp_path}/reproduction.md")
    lines = (tmp_path / "reproduction.md").read_text().splitlines()[2:]
    assert [line.split(" | ")[1] for line in lines] == [
        "grades",
        "accountants",
        "taxis",
        "attraction",
        "trajectories",
        "calibration",
    ]


def test_an_experiment_apart_hands_back_what_it_said_and_the_code_that_it_ended_with(toys, tmp_path, monkeypatch):
    found, said, _, code = every._apart("grades", tmp_path, None)
    assert ([row.quantity for row in found], said, code) == (["grades"], "== grades\n", None)

    def failing(out, data):
        print("half of it")
        raise SystemExit(1)

    monkeypatch.setitem(every.IN_ORDER, "grades", failing)
    assert every._apart("grades", tmp_path, None)[:2] == ([], "half of it\n")
    assert every._apart("grades", tmp_path, None)[3] == 1


def test_a_wrong_number_of_processes_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["experiments", "--processes", "0"])
    with pytest.raises(SystemExit, match="2"):
        every.main()
    assert "--processes is 0; give 1 or more" in capsys.readouterr().err


def test_the_processes_of_the_command_find_what_they_are_to_run():
    """`python -m experiments` is the module __main__ there, where a process that it starts finds nothing of it."""
    from experiments import __main__ as command

    assert command.main is every.main
    assert (every._apart.__module__, every.main.__module__) == ("experiments.every", "experiments.every")
