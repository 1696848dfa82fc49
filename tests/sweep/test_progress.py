"""What is said while a sweep runs."""

import io

from dpjax.sweep import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal():
    stream = Terminal()
    bar = progress.watch(1000, "samples", stream)
    bar.advance(250)
    bar.note("a cell failed")
    bar.close()
    assert "25%" in stream.getvalue()
    assert "a cell failed" in stream.getvalue()


def test_quiet_lines_elsewhere(monkeypatch):
    clock = iter([0.0, 10.0, 31.0, 40.0, 62.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    stream = io.StringIO()
    lines = progress.watch(1000, "samples", stream)
    for _ in range(4):
        lines.advance(125)
    lines.note("a cell failed")
    lines.close()
    assert stream.getvalue() == "250 of 1,000 samples, 93 s left\n500 of 1,000 samples, 62 s left\na cell failed\n"
