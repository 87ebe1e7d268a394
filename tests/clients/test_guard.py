"""How `make guard` checks figures; the counting itself is in `benches/guard`."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches" / "guard"))
import compare  # noqa: E402

STORED = {"tiny": {"instructions": 100_000, "allocations": 100}}
MADE = {"rustc": "rustc 1.95.0", "openvino": "2026.4.1"}


def now(**figures):
    return {"tiny": {**STORED["tiny"], **figures}}


@pytest.mark.parametrize("kind", compare.FIGURES)
def test_what_grows_fails(kind, capsys):
    grown = now(**{kind: STORED["tiny"][kind] * 1.05})
    assert compare.report(STORED, grown) == 1
    said = capsys.readouterr()
    assert f"FAILED: tiny: {kind} have grown from" in said.err
    assert "(+5.0 %)" in said.err
    assert "make guard-update" in said.err


def test_a_little_passes(capsys):
    assert compare.report(STORED, now(instructions=102_900)) == 0
    said = capsys.readouterr()
    assert "100,000  →  102,900  +2.9 %  100  →  100  +0.0 %" in said.out
    assert "NOTICE" not in said.out


def test_what_falls_is_reported(capsys):
    assert compare.report(STORED, now(instructions=90_000)) == 0
    assert "NOTICE: tiny: instructions have fallen from" in capsys.readouterr().out


def test_figures_that_are_not_stored_fail(capsys):
    assert compare.report({}, now()) == 1
    assert "tiny: no figures are stored" in capsys.readouterr().err
    without = {"tiny": {}}
    missing = [f"tiny: {kind} are not stored" for kind in compare.FIGURES]
    assert compare.check(without, now())[0] == missing


def test_figures_that_are_not_counted_fail():
    more = {**STORED, "gone": STORED["tiny"]}
    assert compare.check(more, now())[0] == ["gone: figures are stored, and nothing was counted"]


def test_another_compiler_is_reported(monkeypatch, tmp_path, capsys):
    assert compare.other(MADE, dict(MADE)) is None
    file = tmp_path / "figures.json"
    file.write_text(compare.json.dumps({"made_with": MADE, "requests": STORED}))
    monkeypatch.setattr(compare, "STORED", file)
    monkeypatch.setattr(compare, "valgrind", lambda: "valgrind")
    monkeypatch.setattr(compare, "made_with", lambda _: {**MADE, "rustc": "rustc 1.96.0"})
    assert compare.main([]) == 0
    assert "rustc rustc 1.95.0, here rustc 1.96.0" in capsys.readouterr().out


def test_without_valgrind_it_is_skipped(monkeypatch, capsys):
    monkeypatch.setattr(compare, "valgrind", lambda: None)
    assert compare.main([]) == 0
    assert "NOTICE: the guard is skipped" in capsys.readouterr().out


PROFILE = """\
# callgrind format
positions: line
events: Ir
ob=(1) /somewhere/guard-0123
fl=(1) /somewhere/main.rs
fn=(1) guard::requests
10 400
cfn=(2) guard::answer
calls=2 20
+1 600
fn=(2)
20 100
cob=(2) /usr/lib/libc.so.6
cfn=(3) malloc
calls=6 0
* 60
+2 50
cob=(3) /somewhere/libopenvino.so.2641
cfn=(4) ov::infer
calls=2 0
+1 5000
ob=(2)
fn=(3)
0 60
cfn=(5) _int_malloc
calls=6 0
0 0
ob=(3)
fn=(4)
0 5000
cob=(2)
cfn=(3)
calls=40 0
0 0
"""


def test_a_profile_counts_what_is_not_the_runtimes():
    assert compare.instructions_of(PROFILE) == 610


def test_names_need_no_numbers():
    names = {}

    def whole(match):
        key, number, name = match.groups()
        kind = key[-2:]
        return f"{key}={names.setdefault((kind, number), name)}"

    profile = re.sub(r"(?m)^(c?\w\w)=\((\d+)\) ?(.*)$", whole, PROFILE)
    assert "ob=/somewhere/libopenvino.so.2641" in profile
    assert "(1)" not in profile
    assert compare.instructions_of(profile) == 610
