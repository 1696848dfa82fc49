"""The registry: a mechanism of one file and one registration is found everywhere, and no release draws a simulated table."""

import dataclasses
import json
import pathlib
import re
from typing import get_type_hints

import jax
import jaxtyping
import numpy as np
import pytest

from dpjax import counts, release, sweep
from dpjax.audit import count_target
from dpjax.cli import main
from dpjax.counts import DiscreteLaplaceMechanism
from dpjax.counts.protocol import Law
from dpjax.datasets import Dataset
from dpjax.datasets.dataset import ReadReport
from dpjax.release import Plan
from dpjax.release.model import draw_model
from dpjax.sweep import compare_counts, count_verdicts

COUNTS = np.array([[50, 30, 20], [12, 60, 28], [15, 25, 40]])
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "extending.md"
TOY = "tests.counts.toy_counts:toy"


@pytest.fixture(autouse=True)
def toy():
    """The toy, registered by the import of its module alone, and forgotten after the test."""
    import importlib

    from tests.counts import toy_counts

    importlib.reload(toy_counts)
    yield toy_counts
    counts.unregister("toy")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text(
        "from,A,B,C\n" + "".join(f"{name},{','.join(map(str, row))}\n" for name, row in zip("ABC", COUNTS, strict=True))
    )
    return path


def _data():
    total = int(COUNTS.sum())
    return Dataset(
        name="x", labels=("A", "B", "C"), synthetic=False, source="x", report=ReadReport(read=total, kept=total), counts=COUNTS
    )


def test_it_is_known_and_meets_its_target(toy):
    assert counts.names()[-1] == "toy"
    assert counts.mechanism(TOY) is counts.mechanism("toy") is toy.Toy
    m = counts.calibrated("toy", counts.Target(0.7, 0.0))
    assert (m.b, m.exact_epsilon()) == (3, 2 / 3)
    persons = counts.Neighbours("add-remove", counts.PersonBound(5))
    assert counts.calibrated("toy", counts.Target(0.7, 0.0, persons)).b == 8  # 5 / 0.7, rounded up
    pmf = m.pmf(200)
    assert np.log(pmf[1:] / pmf[:-1]).max() * 2 == pytest.approx(2 / 3)


def test_a_sweep_finds_it(tmp_path):
    config = {
        "name": "c",
        "workload": "count-matrix",
        "mechanism": {"epsilon": 1.0},
        "sweep": {"samples": 4, "axes": {"name": ["toy", "discrete-laplace"]}},
    }
    workload = sweep.build("count-matrix", _data(), config["mechanism"])
    sweep.run(sweep.plan(sweep.from_table(config), workload, out=tmp_path / "out"))
    results = sweep.open(tmp_path / "out")
    assert results["status"].values.tolist() == ["done", "done"]
    assert results["toy_scale"].values.tolist() == [2.0, 0.0]  # 0 for who has none
    assert results["toy_scale"].attrs["units"] == "records"
    with pytest.raises(ValueError, match=r"mechanism\.pseudocount is 3\.0\. Toy does not use it, but pseudocount would"):
        sweep.build("count-matrix", _data(), {"name": "toy", "epsilon": 1.0, "pseudocount": 3.0}).check({})


def test_the_command_sweeps_it_from_its_module(tmp_path, table):
    config = tmp_path / "config.toml"
    config.write_text(
        f'name = "c"\nworkload = "count-matrix"\n[data]\nsource = "count-matrix"\npath = "{table}"\n'
        f'[mechanism]\nname = "{TOY}"\nepsilon = 1.0\n[sweep]\nsamples = 4\n'
    )
    assert main(["run", str(config), "--out", str(tmp_path / "out"), "--no-plot"]) == 0
    assert float(sweep.open(tmp_path / "out")["toy_scale"]) == 2.0


def test_compare_finds_it(tmp_path, table, capsys):
    found = compare_counts(jax.random.key(0), COUNTS, epsilons=[1.0], delta=1e-4, draws=64, mechanisms=["discrete-laplace", TOY])
    assert [one.mechanism for one in found] == ["discrete Laplace, floored", "discrete Laplace, projected", "toy, floored"]
    toy, laplace = found[2], found[0]
    assert toy.delta == 0
    assert 0.3 < toy.tv / laplace.tv < 3  # the same scale, other draws
    assert count_verdicts([toy._replace(tv=0.001)])[1] == "Smallest TV of the rows: toy, floored (a baseline) at epsilon 1."
    command = ["compare", "count-matrix", "--set", f"path={table}", "--epsilon", "1", "--draws", "64", "-o", str(tmp_path / "out")]
    assert main([*command, "--mechanism", "uniform", "--mechanism", TOY]) == 0
    lines = (tmp_path / "out" / "comparison.csv").read_text().splitlines()[2:]
    assert [line.split(",1.0,")[0].strip('"') for line in lines] == ["uniform guess", "toy, floored"]
    assert "toy, floored" in capsys.readouterr().out


def test_the_audit_finds_it_and_a_fault_in_it(capsys):
    m = counts.calibrated("toy", counts.Target(1.0, 0.0))
    target = count_target(m, 0.0)
    honest = target.audit(jax.random.key(0), 20_000)
    assert 0.5 * target.exact < honest.lower_bound <= target.claimed
    quiet = count_target(m, 0.0, drawn_by=dataclasses.replace(m, b=1))
    assert quiet.audit(jax.random.key(0), 20_000).refutes(target.claimed)
    assert main(["audit", "toy", TOY, "--epsilon", "1", "--draws", "4000"]) == 0
    assert capsys.readouterr().out.count("toy  ") == 2


def test_a_release_finds_it(toy, tmp_path, table, capsys):
    (tmp_path / "labels.csv").write_text("A\nB\nC\n")
    common = [str(table), "--epsilon", "0.7", "--labels", str(tmp_path / "labels.csv")]
    for name, out in (("toy", "one"), (TOY, "two")):
        assert main(["privatize-model", *common, "--mechanism", name, "-o", str(tmp_path / out)]) == 0
        statement = json.loads(release.read_release(tmp_path / out / "model.nc").attrs["privacy_statement"])
        assert (statement["form"], statement["delta"], statement["noise_scale_exactly"]) == ("toy", 0.0, "3")
        assert statement["accountant"] == "exact, pure: L1 sensitivity over a whole scale"
        bars = release.error_bars(tmp_path / out)
        assert (bars.lower <= bars.estimate).all()
        assert (bars.estimate <= bars.upper).all()
    assert toy.Toy(b=3).noise_variance == pytest.approx(DiscreteLaplaceMechanism(epsilon=2 / 3).noise_variance, rel=1e-12)
    assert "toy noise of scale 3" in capsys.readouterr().err


@pytest.fixture
def as_a_user_has_it():
    """Annotations are not checked, as in an installed package."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def test_no_release_draws_a_simulated_table(as_a_user_has_it):
    """A mechanism that simulates is of another type than what a release draws with, and is refused wherever one is given."""
    plan = Plan.make(("a", "b"), epsilon=1.0, delta=0.0, form="toy")
    assert isinstance(plan.form, counts.ExactSampler)
    for name in counts.names():
        assert not issubclass(counts.mechanism(name), counts.ExactSampler)
    with pytest.raises(ValueError, match="A release needs an ExactSampler"):
        dataclasses.replace(plan, form=plan.form.mechanism)
    with pytest.raises(ValueError, match="A release needs an ExactSampler"):
        draw_model({}, ("a", "b"), form=plan.form.mechanism, support=np.ones((2, 2), bool), draws=np.zeros(2, int))
    assert get_type_hints(draw_model)["form"] is get_type_hints(Plan)["form"] is counts.ExactSampler  # mypy refuses it too
    with pytest.raises(ValueError, match=r"uniform.* has no exact sampler"):
        Plan.make(("a", "b"), epsilon=1.0, delta=0.0, form="uniform")


def test_a_mechanism_without_a_law_of_its_own_is_swept_by_its_privatize():
    m = counts.calibrated("toy", counts.Target(1.0, 0.0))
    plain = counts.CountMechanism.law(m, COUNTS, np.ones((3, 3), bool), np.dtype(np.float32))
    assert isinstance(plain, Law)
    key, support = jax.random.key(0), np.ones((3, 3), bool)
    values = np.asarray(COUNTS, np.float32)
    whole = np.asarray(plain.draw(key, plain.parameters, values, support, np.uint32(0), 6))
    part = np.asarray(plain.draw(key, plain.parameters, values, support, np.uint32(4), 2))
    np.testing.assert_array_equal(whole[4:], part)
    one = np.asarray(m.privatize(jax.random.fold_in(key, 3), values, support))
    np.testing.assert_allclose(whole[3], one, rtol=1e-6)


def test_the_page_runs():
    block = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)[1]
    try:
        exec(compile(block, str(PAGE), "exec"), {"__name__": "mine"})
        sampler = counts.exact_sampler("whole-scale", counts.Target(0.7, 0.0), counts.Planning(3, 100.0))
        assert (sampler.parameter, sampler.delta_spent) == (3, 0.0)
        drawn = np.array([sampler.draw_row(0, [5] * 100, 0) for _ in range(20)]) - 5
        assert 0 < np.abs(drawn).mean() < 10
        plan = Plan.make(("a", "b"), epsilon=0.7, delta=0.0, form="whole-scale")
        assert plan.statement()["form"] == "whole-scale"
        assert "noise of scale 3" in "\n".join(plan.price())
    finally:
        counts.unregister("whole-scale")


def test_names_and_options_are_refused_in_words():
    with pytest.raises(ValueError, match=r"mechanism is 'gausian'\. Choose among pseudocount, discrete-laplace"):
        counts.mechanism("gausian")
    with pytest.raises(ValueError, match=r"\. Its module cannot be imported"):
        counts.mechanism("no.such.module:toy")
    with pytest.raises(ValueError, match=r"pseudocount is 3\. discrete-laplace does not use it"):
        counts.calibrated("discrete-laplace", counts.Target(1.0, 0.0), pseudocount=3)

    class Other(counts.UniformGuess):
        name = "toy"

    with pytest.raises(ValueError, match=r"name is 'toy'\. Another mechanism has this name"):
        counts.register(Other)


@pytest.mark.parametrize("word", ["replace", "add-remove"])
def test_one_value_says_what_is_protected(word):
    record, person = counts.Neighbours(word), counts.Neighbours(word, counts.PersonBound(5, 2))
    sides = 2 if word == "replace" else 1
    assert (record.word, record.l1, record.l2_squared, record.linf) == (word, sides, sides, 1)
    assert (person.word, person.l1, person.l2_squared, person.linf) == (f"{word}-person", 5 * sides, 9 * sides, 2)
    for name, options in (("pseudocount", {"pseudocount": 60.0}), ("discrete-laplace", {}), ("discrete-gaussian", {})):
        m = counts.calibrated(name, counts.Target(1.0, 1e-3, record), **options)
        assert m.neighbours == record
        assert m.adjacency == word
        sampler = m.exact_sampler(epsilon=1.0, delta=1e-3)
        assert sampler.neighbours == record


@pytest.mark.parametrize(
    ("alias", "name"), [("laplace", "discrete-laplace"), ("gaussian", "discrete-gaussian"), ("theorem7", "pseudocount")]
)
def test_every_command_takes_a_mechanism_by_its_alias(alias, name, capsys):
    from dpjax.cli.audit import _builder
    from dpjax.cli.privatize_model import _name
    from dpjax.sweep.workloads.count import table_of

    assert counts.mechanism(alias).name == name
    assert _name(alias, "theorem7") == name
    assert _builder(alias)[0] == name
    assert table_of()(name=alias, epsilon=1.0).name == name
