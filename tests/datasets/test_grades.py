import pytest

from dpjax.datasets import grades, read_grades

HEADER = "Term,Course,Section,A_pct,B_pct,C_pct,D_pct,F_pct,I_pct,W_pct,Class Size,n_solutions,N_inferred,A_n,B_n,C_n,D_n,F_n,W_n\n"


def test_the_invented_class():
    data = grades()
    assert (data.labels, data.counts.tolist()) == (("A", "B", "C", "D", "F"), [38, 29, 15, 8, 8])
    assert data.synthetic
    assert "synthetic" in data.name


def test_the_lecture_of_98(shared_data):
    path = shared_data / "grades" / "gatech_calculus_sections_2013-14.csv"
    choice = {"term": 201402, "course": "MATH 1501", "section": "D"}
    data = read_grades(path, **choice, ambiguous="smallest")
    assert data.counts.tolist() == [26, 20, 22, 11, 11]
    assert data.report.read == 98
    assert data.report.dropped == {"withdrawn": 7, "incomplete or otherwise ungraded": 1}
    without = read_grades(path, **choice)
    assert without.counts.tolist() == [25, 18, 22, 11, 11]
    assert without.report.notes == ("Left out, since several class sizes fit their percentages: D4.",)


def test_one_section_of_the_inferred_counts(shared_data):
    path = shared_data / "grades" / "gatech_calculus_sections_2013-14.csv"
    assert read_grades(path, term="201402", course="MATH 1501", section="D2").counts.tolist() == [11, 4, 12, 1, 3]


def test_the_exact_counts(shared_data):
    path = shared_data / "grades" / "uiuc_calculus_sections.csv"
    one = read_grades(path, term="fa2010", course=220, section=33431)
    assert one.counts.tolist() == [64, 67, 43, 34, 33]
    assert one.report.dropped["withdrawn"] == 3
    lines = [line.split(",") for line in path.read_text().split("\n")[1:] if line]
    assert len(lines) == 198
    assert read_grades(path).counts.sum() == sum(int(cells[-1]) for cells in lines)


def test_the_smallest_class_that_meets_its_percentages(write):
    row = "1,M,A,33,33,17,0,17,0,0,Very Small (Fewer than 10 students),2,,,,,,,\n"
    data = read_grades(write("g.csv", HEADER + row), ambiguous="smallest")
    assert data.counts.tolist() == [2, 2, 1, 0, 1]
    larger = row.replace("Very Small (Fewer than 10 students)", "Small (10-20 Students)")
    assert read_grades(write("g.csv", HEADER + larger), ambiguous="smallest").counts.tolist() == [4, 4, 2, 0, 2]


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("term,course,A,B,C,D\n1,2,3,4,5,6\n", {}, ["grade F", "columns are term, course"]),
        ("term,course,A,B,C,D,F\n1,2,3,4,5,6,-1\n", {}, ["line 2", "negative"]),
        ("term,course,A,B,C,D,F\n1,2,3,4,5,6,1.5\n", {}, ["line 2", "fractional"]),
        ("term,course,A,B,C,D,F\n1,2,3,4,5,6\n", {}, ["line 2", "needs 7"]),
        ("term,course,A,B,C,D,F\n1,2,3,4,5,6,7\n", {"term": 3}, ["term 3", "matches"]),
        ("term,course,A,B,C,D,F\n1,2,3,4,5,6,7\n", {"section": "D"}, ["section", "columns are"]),
        ("term,course,A,B,C,D,F\n1,2,3,4,5,6,7\n", {"ambiguous": "largest"}, ["'largest'"]),
        (HEADER + "1,M,A,40,40,10,0,0,0,0,Small (10-20 Students),2,,,,,,,\n", {"ambiguous": "smallest"}, ["line 2", "10 to 20"]),
        (HEADER + "1,M,A,40,40,10,0,0,0,0,,1,9,4,4,1,1,0,0\n", {}, ["line 2", "add up to 10"]),
    ],
)
def test_what_gives_no_grades_is_refused(write, refused, content, options, words):
    refused(read_grades, "g.csv" if "largest" not in options.values() else "", *words, path=write("g.csv", content), **options)
