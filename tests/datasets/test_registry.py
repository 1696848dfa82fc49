import subprocess
import sys

import numpy as np
import pydantic
import pytest

from dpjax.datasets import SOURCES, DataConfig, load, manhattan

BUILT_IN = {"grades", "manhattan", "ratings", "links", "campus-roads"}


def test_every_source_is_either_built_in_or_needs_a_path(refused):
    assert set(SOURCES) >= {"tlc-trips", "od-counts", "count-matrix", "rating-matrix", "pairs", "sequences", "wikispeedia"}
    assert set(SOURCES) >= {"road-turns", "grades-file"} | BUILT_IN
    for source in SOURCES:
        if source in BUILT_IN:
            assert load(source).synthetic
        else:
            refused(load, f"source {source} reads a file", source=source)


def test_load_hands_the_options_on(write):
    assert np.array_equal(load("manhattan", n_trips=50_000, minimum=1).counts, manhattan(n_trips=50_000, minimum=1).counts)
    assert load("count-matrix", path=write("m.csv", "1,2\n3,4\n")).counts.sum() == 10


@pytest.mark.parametrize("call", [load, lambda **table: DataConfig.model_validate(table)])
def test_unknown_names_are_refused_with_the_nearest_and_the_known(call):
    with pytest.raises(ValueError, match=r"source is 'manhatan'. Did you mean manhattan.*wikispeedia"):
        call(source="manhatan")
    with pytest.raises(ValueError, match=r"an option of tlc-trips is 'mnth'. Did you mean month.*keep_unknown"):
        call(source="tlc-trips", path="x", mnth="2025-11")
    with pytest.raises(ValueError, match=r"an option of links is 'path'. It reads no file"):
        call(source="links", path="x")
    with pytest.raises(ValueError, match=r"an option of grades is 'seed'. It takes none"):
        call(source="grades", seed=1)
    with pytest.raises(ValueError, match=r"path is not given. The source pairs reads a file"):
        call(source="pairs")


def test_a_config_turns_text_to_the_types_of_the_source():
    config = DataConfig.model_validate({"source": "manhattan", "n_trips": "50000", "minimum": "1"})
    assert config.load().report.read == 50_000
    assert config.model_dump(exclude_defaults=True) == {"source": "manhattan", "n_trips": 50_000, "minimum": 1}
    assert DataConfig.model_validate(config.model_dump()) == config


def test_a_config_refuses_wrong_types_and_a_missing_source():
    with pytest.raises(pydantic.ValidationError, match="n_trips"):
        DataConfig.model_validate({"source": "manhattan", "n_trips": "many"})
    with pytest.raises(pydantic.ValidationError, match="keep_unknown"):
        DataConfig.model_validate({"source": "tlc-trips", "path": "x", "keep_unknown": "perhaps"})
    with pytest.raises(pydantic.ValidationError, match="source"):
        DataConfig.model_validate({"n_trips": 1})


@pytest.mark.parametrize("source", sorted(SOURCES))
def test_every_source_can_be_configured(source):
    table = {"source": source} | ({} if source in BUILT_IN else {"path": "somewhere"})
    assert DataConfig.model_validate(table).model_dump(exclude_defaults=True) == table


def test_a_table_of_data_inside_another_model(write):
    class Whole(pydantic.BaseModel, extra="forbid"):
        data: DataConfig

    path = write("od.csv", "PULocationID,DOLocationID,count\n1,2,3\n2,1,4\n7,1,1\n")
    whole = Whole.model_validate({"data": {"source": "od-counts", "path": str(path), "zones": [1, 2]}})
    assert whole.data.load().counts.tolist() == [[0, 3], [4, 0]]
    assert Whole.model_validate_json(whole.model_dump_json()) == whole


def test_importing_the_package_loads_neither_jax_nor_pyarrow_nor_pydantic():
    heavy = {"jax", "pyarrow", "pydantic", "matplotlib", "pandas"}
    code = f"import sys, dpjax.datasets; assert not {heavy} & set(sys.modules), {heavy} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
