"""`dpjax compare` as `make run` and the gallery call it: every comparison once, on the files that are named, and a failure stops."""

import pytest

from experiments import mechanisms


def test_every_comparison_is_made_once_and_the_real_ones_with_data_alone(tmp_path, monkeypatch):
    calls = []

    def main(words):
        calls.append(words)
        folder = tmp_path / words[-1].rsplit("/", 1)[1]
        folder.mkdir()
        (folder / "comparison.png").write_bytes(b"")
        return 0

    monkeypatch.setattr(mechanisms, "main", main)
    found = mechanisms.run(tmp_path)
    assert [path.parent.name for path in found] == list(mechanisms.BUILT_IN)
    assert len(mechanisms.run(tmp_path, tmp_path / "data")) == 6
    assert [words[1] for words in calls[:3]] == ["grades", "manhattan", "ratings"]
    assert len(calls) == 6
    assert all(str(tmp_path / "data") in " ".join(words) for words in calls[3:])


def test_a_comparison_that_fails_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(mechanisms, "main", lambda _: 2)
    with pytest.raises(SystemExit):
        mechanisms.run(tmp_path)
