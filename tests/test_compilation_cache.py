"""Compiled programs on disk: where they go, who turns them on, and that neither importing dpjax nor a command that publishes does."""

import os
import pathlib
import stat
import subprocess
import sys

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

import dpjax
from dpjax import _compilation_cache, cli

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER, SHORTEST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"


@pytest.fixture
def clean(monkeypatch, tmp_path):
    """No folder in the environment, a home of the test's own, and JAX's settings as they were afterwards."""
    folder, shortest = jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs
    for name in (FOLDER, SHORTEST, "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")  # so that what the test sets is taken back
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    yield monkeypatch
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", shortest)
    compilation_cache.reset_cache()


@pytest.mark.parametrize(
    ("xdg", "expected"),
    [(None, ".cache/dpjax/jax"), ("", ".cache/dpjax/jax"), ("here", ".cache/dpjax/jax"), ("/other", "/other/dpjax/jax")],
)
def test_the_folder_follows_the_desktop_conventions(clean, tmp_path, xdg, expected):
    """A relative $XDG_CACHE_HOME is to be ignored, by the XDG Base Directory Specification."""
    if xdg is not None:
        clean.setenv("XDG_CACHE_HOME", xdg)
    assert _compilation_cache.cache_directory() == tmp_path / expected


def test_programs_compiled_after_the_call_are_stored_for_the_owner_alone(clean, tmp_path):
    folder = dpjax.enable_compilation_cache(tmp_path / "programs")
    assert folder == tmp_path / "programs"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert os.environ[FOLDER] == str(folder)  # for the processes that this one starts
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.jit(lambda x: x * 7.25 + 1.5)(2.0)
    assert list(folder.iterdir())


def test_the_folder_that_the_user_chose_is_kept(clean, tmp_path):
    clean.setenv(FOLDER, str(tmp_path / "mine"))
    clean.setenv(SHORTEST, "3")
    assert dpjax.enable_compilation_cache() == tmp_path / "mine"
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 3.0


def test_an_empty_folder_in_the_environment_turns_it_off(clean, tmp_path):
    clean.setenv(FOLDER, "")
    before = jax.config.jax_compilation_cache_dir
    assert dpjax.enable_compilation_cache() is None
    assert jax.config.jax_compilation_cache_dir == before
    assert not list(tmp_path.iterdir())


def test_where_no_folder_can_be_made_nothing_changes(clean, tmp_path):
    (tmp_path / ".cache").write_text("in the way")
    before = jax.config.jax_compilation_cache_dir
    assert dpjax.enable_compilation_cache() is None
    assert FOLDER not in os.environ
    assert jax.config.jax_compilation_cache_dir == before


@pytest.mark.parametrize(
    ("words", "cached"),
    [
        (("run", "nowhere.toml"), True),
        (("compare", "nowhere"), True),
        (("audit", "nothing"), True),
        (("--version",), False),
        (("run", "--help"), True),
        (("privatize-model", "--help"), False),
        (("privatize-trajectory", "--help"), False),
    ],
)
def test_only_commands_that_publish_nothing_keep_their_programs(monkeypatch, capsys, words, cached):
    asked = []
    monkeypatch.setattr(_compilation_cache, "enable_compilation_cache", lambda: asked.append(1))
    monkeypatch.setattr("dpjax.cli.errors.leave", lambda code: None)
    monkeypatch.setattr(sys, "argv", ["dpjax", *words])
    cli.main()
    assert bool(asked) is cached
    asked.clear()
    cli.main(list(words))  # in somebody else's process
    assert not asked


def test_importing_dpjax_leaves_jax_as_it_is():
    code = (
        "import os; before = dict(os.environ); import dpjax, dpjax.sweep, dpjax.trajectory, dpjax.simplex, jax; "
        "assert dict(os.environ) == before; assert jax.config.jax_compilation_cache_dir is None"
    )
    environment = {name: value for name, value in os.environ.items() if name not in (FOLDER, SHORTEST)} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


JOB = """
import sys
import dpjax, jax, numpy as np
from scipy import sparse

ran = []
jax.monitoring.register_event_listener(lambda name, **_: ran.append(name.rsplit("/", 1)[-1]))
dpjax.enable_compilation_cache(sys.argv[1])
P = np.random.default_rng(0).dirichlet(np.ones(9), 9) * (np.arange(9)[:, None] != np.arange(9))
chain = dpjax.MarkovChain.from_matrix(sparse.csr_array(P / P.sum(axis=1, keepdims=True)))
m = dpjax.TrajectoryMechanism(chain, epsilon=1.0, rho=1.0)
m.sample(jax.random.key(0), [0, 1, 2, 3, 1], 5)
dpjax.stationary_distribution(P / P.sum(axis=1, keepdims=True))
dpjax.shortest_paths(chain, "floyd_warshall")
dpjax.DirichletMechanism(k=20.6, eta=0.073, n_records=98, n_categories=5).privatize(jax.random.key(1), np.full(5, 0.2))
print(ran.count("cache_hits"), ran.count("cache_misses"))
"""


def test_the_second_process_of_a_job_compiles_nothing(clean, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in (FOLDER, SHORTEST)} | {"PYTHONPATH": str(ROOT)}
    counted = []
    for _ in range(2):
        command = [sys.executable, "-c", JOB, str(tmp_path / "programs")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        counted.append([int(word) for word in done.stdout.split()])
    assert counted[1] == [sum(counted[0]), 0]
    assert 10 <= sum(counted[0]) <= 25  # 17, and 66 where every constant inside a program was one of its own
