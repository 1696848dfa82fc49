"""No word of the list below in what people read: pages, README, changelog, docstrings, comments, messages, names of tests."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Folders and files, from the root.
COVERED = ("README.md", "CHANGELOG.md", "SECURITY.md", "docs", "dpjax", "experiments", "benchmarks", "configs", "tests")

# A phrase, matched over line ends and underscores and without regard to case, and what to write instead.
OUT = {
    r"told": "says, prints, gets a message",
    r"mend(s|ed|ing)?": "repairs, solves, fixes",
    r"rooms?": "package, or space",
    r"houses?": "package, or project",
    r"held against": "compared with",
    r"whoever": "anyone who",
    r"who takes": "the person who takes",
    r"what is no": "name it: a value that is not a number",
    r"what is thought": "name it",
    r"as ever": "as always, or leave it out",
    r"by nothing where": "unbounded where",
    r"unless given": "the default is",
    r"to be had": "available",
    r"the one of the": "name it",
    r"words that nobody reads": "output that nobody reads",
}
SUFFIXES = {".md", ".py", ".toml", ".txt", ".csv"}
GENERATED = {"_build", "jupyter_execute", "__pycache__"}
PATTERNS = [
    (re.compile(r"(?<![a-z])(?:" + phrase.replace(" ", r"[\s_#>*]+") + r")(?![a-z])", re.IGNORECASE), instead)
    for phrase, instead in OUT.items()
]


def found(name, root=ROOT):
    """`file:line: words; write: ...` of each phrase of the list in a file, or in the files of a folder."""
    lines = []
    for file in [root / name] if (root / name).is_file() else sorted((root / name).rglob("*")):
        if file.suffix not in SUFFIXES or GENERATED & set(file.relative_to(root).parts) or file == pathlib.Path(__file__).resolve():
            continue
        text = file.read_text(encoding="utf-8")
        for pattern, instead in PATTERNS:
            for match in pattern.finditer(text):
                number = text.count("\n", 0, match.start()) + 1
                lines.append(f"{file.relative_to(root)}:{number}: {match[0]!r}; write: {instead}")
    return lines


@pytest.mark.parametrize("name", COVERED)
def test_no_phrase_of_the_list_is_in(name):
    assert (ROOT / name).exists()
    lines = found(name)
    assert not lines, "\n" + "\n".join(lines)


def test_a_phrase_is_found_in_its_forms_and_other_words_are_left_alone(tmp_path):
    (tmp_path / "page.md").write_text(
        "A house, two Rooms.\nThe caller is told\nso. Held\n> against it.\ndef test_what_is_no_number(): ...\n", encoding="utf-8"
    )
    (tmp_path / "fine.md").write_text(
        "A household, a mushroom, a bedroom, a warehouse; as recommended, amended. What is not known. Holders.\n", encoding="utf-8"
    )
    words = [line.split(": ")[1].removesuffix("; write") for line in found("page.md", tmp_path)]
    assert sorted(words) == sorted(["'told'", "'Rooms'", "'house'", r"'Held\n> against'", "'what_is_no'"])
    assert found("fine.md", tmp_path) == []
