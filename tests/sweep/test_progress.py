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
    clock = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: clock[0])
    stream = io.StringIO()
    lines = progress.watch(1000, "samples", stream)
    for now in (10.0, 31.0, 40.0, 62.0):
        clock[0] = now
        lines.advance(125)
    lines.note("a cell failed")
    assert stream.getvalue() == "250 of 1,000 samples, 01:33 left\n500 of 1,000 samples, 01:02 left\na cell failed\n"
    lines.close()
    assert "\r" not in stream.getvalue()


def test_what_is_done_soon_says_nothing_in_a_log():
    stream = io.StringIO()
    lines = progress.watch(1000, "samples", stream)
    lines.advance(1000)
    lines.close()
    assert not stream.getvalue()
