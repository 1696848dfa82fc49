"""Tables with labels, written in every format and spelling."""

import csv
import gzip
import io

import pytest


class Written:
    """Writes rows of cells (texts) into files of the test's own folder."""

    def __init__(self, folder):
        self.folder, self.number = folder, 0

    def path(self, suffix):
        self.number += 1
        return self.folder / f"{self.number}{suffix}"

    def text(self, rows, *, separator=",", ends="\n", bom=False, zipped=False, sep_line=False, head=(), quote=csv.QUOTE_MINIMAL):
        """A text file: CSV quoting unless quote is None, which writes cells as they are."""
        lines = io.StringIO(newline="")
        if quote is None:
            lines.write("".join(separator.join(row) + ends for row in rows))
        else:
            csv.writer(lines, delimiter=separator, lineterminator=ends, quoting=quote).writerows(rows)
        above = "".join(line + ends for line in ([f"sep={separator}"] if sep_line else []) + list(head))
        raw = (above + lines.getvalue()).encode("utf-8-sig" if bom else "utf-8")
        path = self.path(".csv.gz" if zipped else ".csv")
        path.write_bytes(gzip.compress(raw) if zipped else raw)
        return path

    def raw(self, content, suffix=".csv"):
        path = self.path(suffix)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def parquet(self, header, rows, convert=str):
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as pq

        path = self.path(".parquet")
        pq.write_table(pa.table({name: [convert(row[i]) for row in rows] for i, name in enumerate(header)}), path)
        return path


@pytest.fixture
def written(tmp_path):
    return Written(tmp_path)
