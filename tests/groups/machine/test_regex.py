"""Regular expressions of subscriptions: RE2's syntax, the whole name, and linear time."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kompat.groups.machine.regex import TopicRegex

NAMES = ["orders", "Orders", "orders-1", "orders.eu", "eu.orders", "a", "b", "aa", "ab", "_x", "1", "x-y", "xy"]


@pytest.mark.parametrize(
    "pattern",
    [
        "orders",
        "orders.*",
        ".*",
        ".+orders",
        "^orders$",
        "orders|a|b",
        "(a|b)+",
        "a{2}",
        "a{1,2}",
        "[ab]{1,}",
        "[^a]",
        "[a-z]+",
        r"\w+",
        r"\W",
        r"[\w]+",
        r"orders[-.].*",
        r"(?:a)(?P<x>b)?",
        "(?i)ORDERS",
        "(?i:O)rders",
        "a?b?",
        r"\d",
        r"\D+",
        r"\borders\b.*",
        r".*\b",
        r"x\By",
        r"x\b-y",
        r"\x61",
        "",
        "a||b",
        "()",
        "(a*)*",
        "a{0}",
        "[]-a]",
        "[a-]",
        "[-a]",
        r"\.|a",
        "a{,2}",
        "x{y",
    ],
)
def test_the_same_names_match_as_with_pythons_re(pattern: str) -> None:
    python = pattern if pattern != "a{,2}" else r"a\{,2\}"  # RE2 takes it literally
    ours = TopicRegex(pattern)

    assert [name for name in NAMES if ours.matches(name)] == [
        name for name in NAMES if re.fullmatch(python, name, re.ASCII)
    ]


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("[[:alpha:]]+", ["orders", "Orders", "a", "b", "aa", "ab", "xy"]),
        ("[[:^alpha:]]", ["1"]),
        (r"\pN", ["1"]),
        (r"\p{Lu}rders", ["Orders"]),
        (r"\p{^Lu}rders", ["orders"]),
        (r"\PN+", [name for name in NAMES if "1" not in name]),
        (r"\p{Greek}*", []),
        (r"\Qorders.\Eeu", ["orders.eu"]),
        (r"\A\Qa", ["a"]),
        (r"orders\z", ["orders"]),
        (r"(?s)o.*(?-s)", ["orders", "orders-1", "orders.eu"]),
        (r"(?<n>a)", ["a"]),
        (r"\x{61}\141", ["aa"]),
        (r"\n|a", ["a"]),
        (r"[\x61-\x62]", ["a", "b"]),
        ("ü|a", ["a"]),
        ("(?i)[a]+", ["a", "aa"]),
        ("a*?b+?", ["b", "ab"]),
        # As RE2/J 1.8 has them; Rust's own syntax takes each for something else, or not at all.
        ("[a-b-c]", ["a", "b"]),
        ("[a&&b]", ["a", "b"]),
        ("[[a]", ["a"]),
        ("[a~~b]", ["a", "b"]),
        ("[--a]", ["a", "1"]),
        ("[:alpha:]", ["a"]),
        ("[[.a.]]", []),
        (r"[\w-z]", ["a", "b", "1"]),
        (r"\_x", ["_x"]),
        (r"\<|a", ["a"]),
        (r"\b{1}a", ["a"]),
        ("a{01}", []),
        ("a{ 1}", []),
        ("(?P<1>a)", ["a"]),
        ("(?)a", ["a"]),
        ("(?ii)A", ["a"]),
        ("(?i-i)a", ["a"]),
        ("a(?i)b|B", ["b", "ab"]),
        ("(?i:a)B", []),
        (r"\Qa\E*", ["a", "aa"]),
        (r"\Qab\E{1}", ["ab"]),
        (r"\Qa\E\Qb\E", ["ab"]),
        (r"\p{Any}", ["a", "b", "1"]),
        (r"(?i)\P{Lu}", ["1"]),
        (r"(?i)[[:upper:]]", ["a", "b"]),
        ("^*a", ["a"]),
        ("(" * 200 + "a" + ")" * 200, ["a"]),
        (".{249}|a", ["a"]),
    ],
)
def test_what_only_re2_has_is_understood(pattern: str, matching: list[str]) -> None:
    regex = TopicRegex(pattern)

    assert [name for name in NAMES if regex.matches(name)] == matching


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "[", "[a", "[z-a]", "*", "a**", "a+*", "a{2}{3}", "a{1001}", "a{3,2}", r"\1", "(?=a)", "(?!a)", "(?<=a)",
        "(?<!a)", "(?P<>a)", "(?P<a", "(?x)", r"\y", r"\pX", r"\p{", r"\p{Klingon}", "\\", r"\xg1", r"\x6", r"\x{}", "[[:foo:]]", "|*",
        "[b-a-c]", "(((a{100}){100}){100}){100}", "(" * 300 + ")" * 300, "(?i", r"\C", r"\Z", r"\E", r"a\Eb", r"[\Qa\E]", "(?P<a.b>a)",
        "(?P<n>a)(?<n>b)", "(?-)a", "{1}", "a|{1}", "[a--b]", "[a-[:digit:]]", r"[a-\d]", "a???", "a*?+", "a++", "a{1}?*", "{*", r"\18",
        r"\x{110000}", r"\u0061", r"\h", "[]", "[^]", "[a\\", r"\p{greek}", r"\p{Letter}", r"\p{any}", r"\p{Lu", r"\p{sc=Latin}", r"\p{^^L}",
        "(?P=n)", "(?#c)", "(?|a)", "(?>a)", r"\k<n>", "a)(b",
    ],
)  # fmt: skip
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        TopicRegex(pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("orders(", "missing closing )"),
        ("[a", "missing closing ]"),
        ("a**", "invalid nested repetition operator: `*`"),
        ("|*", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<n>a)(?P<n>b)", "duplicate capture group name"),
        ("(" * 300 + ")" * 300, "exceed the maximum number of nested parentheses/brackets (250)"),
        ("((a{100}){100}){100}", "the expression is too large"),
        ("a" * 5000, "the expression is longer than 4096 bytes"),
    ],
)
def test_a_refusal_says_why_in_re2s_words(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        TopicRegex(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+", "(a|aa)+", "(a*)*b", "(.*)*x", "(a?){100}a{100}"])
def test_an_expression_that_makes_backtracking_explode_stays_fast(pattern: str) -> None:
    regex = TopicRegex(pattern)
    started = time.perf_counter()

    regex.matches("a" * 248 + "!")
    regex.matches("a" * 248 + "-")

    assert time.perf_counter() - started < 1


@pytest.mark.parametrize("pattern", ["(.?){999}(.?){999}", "a" * 4097, r"(\pL){999}"])
def test_an_expression_that_costs_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="the expression is"):
        TopicRegex(pattern)


def test_each_name_is_looked_at_once() -> None:
    regex = TopicRegex("a.*")

    assert regex.unseen(["a1", "b1"]) == ["a1", "b1"]
    assert regex.select(["a1", "b1"]) == {"a1"}
    assert regex.unseen(["a1", "b1", "a2"]) == ["a2"]
    assert regex.select(["b1", "a2"]) == {"a2"}


def test_names_of_topics_that_are_gone_are_forgotten() -> None:
    regex = TopicRegex("a.*")
    regex.select([f"a{number}" for number in range(10)])
    regex.select(["a1", "a2"])

    assert regex.unseen(["a1", "a2", "a3"]) == ["a3"]


PIECES = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\w", r"\.", "^", "$", r"\b", r"\B", "-"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: "(?:" + "|".join(parts) + ")"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])).map(
            lambda p: f"(?:{p[0]}){p[1]}"
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=300)
@given(PIECES, st.lists(st.text("ab.-_", min_size=1, max_size=6), min_size=1))
def test_random_expressions_agree_with_pythons_re(pattern: str, names: list[str]) -> None:
    regex = TopicRegex(pattern)
    python = re.compile(pattern, re.ASCII)

    assert [regex.matches(name) for name in names] == [python.fullmatch(name) is not None for name in names]


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_a_syntax_error(pattern: str) -> None:
    try:
        TopicRegex(pattern).matches("orders")
    except ValueError:
        return
