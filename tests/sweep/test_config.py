"""Configs: what is read, what is changed from outside, and how a mistake is named."""

import pytest

from dpjax import sweep
from dpjax.sweep.config import parse_memory

TEXT = """
name = "grades"
workload = "sweep_normals:build"
[mechanism]
sigma = 2.0
[sweep]
samples = 1_000
memory = "1.5 MiB"
zip = [["mu", "sigma"]]
[sweep.axes]
mu = {start = 0, stop = 1, num = 3}
sigma = [1, 2, 3]
[output]
dir = "results"
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(TEXT)
    return path


def test_a_config_is_read(path):
    config = sweep.load_config(path)
    assert (config.sweep.samples, config.sweep.seed, config.sweep.block, config.sweep.memory) == (1000, 0, None, 3 * 2**19)
    assert config.sweep.axes == {"mu": (0.0, 0.5, 1.0), "sigma": (1, 2, 3)}
    assert config.mechanism == {"sigma": 2.0}


def test_overrides(path):
    changes = [
        "sweep.samples=5",
        "data.path=../a b.parquet",
        "sweep.axes.mu=[1, 2, 3]",
        "mechanism.deep.er=true",
        "name='n'",
        "output.dir = x y",
    ]
    config = sweep.load_config(path, changes)
    assert config.sweep.samples == 5
    assert config.data == {"path": "../a b.parquet"}
    assert config.sweep.axes["mu"] == (1, 2, 3)
    assert config.mechanism == {"sigma": 2.0, "deep": {"er": True}}
    assert (config.name, config.output.dir) == ("n", "x y")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sweep.sampels=5", r"^sweep\.sampels is not a known key. Did you mean sweep\.samples\?$"),
        ("swep.samples=5", r"^swep is not a known key. Did you mean sweep\?$"),
        ("sweep.samples=5.5", r"^sweep\.samples is 5\.5. Input should be a valid integer"),
        ("sweep.samples='5'", r"^sweep\.samples is '5'"),
        ("sweep.samples=-1", r"^sweep\.samples is -1. Input should be greater than or equal to 0"),
        ("sweep.seed=-1", r"^sweep\.seed is -1"),
        ("sweep.block=0", r"^sweep\.block is 0. Give 'auto' or a whole number"),
        ("sweep.memory=much", r"^sweep\.memory is 'much'. Give bytes"),
        ("sweep.axes.mu=[]", r"sweep\.axes\.mu is empty"),
        ("sweep.axes.mu=[1, 2]", r"Zip two or more axes of one length"),
        ("sweep.axes=3", r"^sweep\.axes is 3. Input should be a valid dictionary"),
        ("sweep=3", r"^sweep is 3"),
        ("name.a=3", r"^--set is 'name\.a'. Name is a value, not a table"),
        ("=3", r"^--set is '=3'. Write it as key=value"),
        ("sweep.samples", r"^--set is 'sweep\.samples'. Write it as key=value"),
        ("output.folder=x", r"^output\.folder is not a known key. Known keys: dir\.$"),
    ],
)
def test_mistakes_are_named_in_one_sentence(path, override, message):
    with pytest.raises(ValueError, match=message) as caught:
        sweep.load_config(path, [override])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/b", "a\\b", "..", ".", ".hidden", "a\nb", "a\0b", "a\x1b[0m", ""])
def test_a_name_that_is_no_folder_is_refused(name):
    table = {"workload": "w", "sweep": {"samples": 2}}
    with pytest.raises(ValueError, match=r"^name is "):
        sweep.from_table(table | {"name": name})
    assert sweep.from_table(table | {"name": "Taxi, 2nd try (é).1"}).name == "Taxi, 2nd try (é).1"


def test_missing_keys_files_and_syntax(tmp_path):
    with pytest.raises(ValueError, match=r"^workload is missing \(1 more after this one\)\. Give it\.$"):
        sweep.from_table({"name": "n"})
    with pytest.raises(ValueError, match=r"\. It cannot be read: No such file"):
        sweep.load_config(tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_text("name = \n")
    with pytest.raises(ValueError, match=r"\. It is not TOML: Invalid value \(at line 1"):
        sweep.load_config(tmp_path / "bad.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"\. It is not TOML"):
        sweep.load_config(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("text", "size"), [("256 MiB", 2**28), ("1kB", None), ("1 KB", 1000), (5, 5), ("2GiB", 2**31), ("0", None), (True, None)]
)
def test_memory(text, size):
    if size is None:
        with pytest.raises(ValueError, match="memory is"):
            parse_memory(text)
    else:
        assert parse_memory(text) == size


def test_an_unknown_workload_is_named():
    with pytest.raises(ValueError, match=r"workload is 'dirichlet'. .* package\.module:builder"):
        sweep.build("dirichlet", None, {})
    with pytest.raises(ValueError, match="cannot be imported"):
        sweep.build("sweep_normals:absent", None, {})
    with pytest.raises(ValueError, match="Its builder returned a dict, which lacks parts of the protocol"):
        sweep.build("sweep_normals:no_workload", None, {})
