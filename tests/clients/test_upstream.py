"""Keeps the examples of tests/upstream and the tests that run them together."""

from pathlib import Path

from upstream import EXAMPLES


def test_every_example_is_run():
    """Each file is named by a test."""
    tests = Path(__file__).parent.glob("test_upstream_*.py")
    text = "".join(test.read_text() for test in tests)
    examples = [path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.glob("*/*")]
    assert len(examples) > 30
    assert [name for name in examples if f'"{name}"' not in text] == []
