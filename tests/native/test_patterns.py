import pytest

from kompat._native import NamePattern


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("a.*", ["a", "ab", "a.b", "aä"]),
        ("a", ["a"]),
        (r"\Qa.b\E", ["a.b"]),
        (r"\Qa.", []),
        (r"a\\Qb", []),
        (r"\w+", ["a", "ab", "b"]),
        ("a[^b]", ["aä"]),
        (r"a\pL", ["ab", "aä"]),
        ("a|b", ["a", "b"]),
    ],
)
def test_the_whole_name_has_to_match(text: str, matching: list[str]) -> None:
    assert NamePattern(text).select(["a", "ab", "a.b", "b", "aä"]) == matching


@pytest.mark.parametrize("text", ["(", "a)(b", "a" * 4097, "((a{100}){100}){100}", r"(a)\1"])
def test_what_is_no_expression_or_too_large_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        NamePattern(text)


def test_what_makes_backtracking_explode_is_harmless() -> None:
    assert NamePattern("(a+)+b").select(["a" * 5_000]) == []
