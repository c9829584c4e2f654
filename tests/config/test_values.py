from hypothesis import given
from hypothesis import strategies as st

from kompat.config import values
from kompat.config.values import ConfigType

WORDS = st.text(st.characters(codec="utf-8", exclude_characters=",", exclude_categories=["Z", "C"]), min_size=1)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_long_survives_being_written_down(number: int) -> None:
    assert values.parse(ConfigType.LONG, values.to_text(number) or "") == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_survives_being_written_down(number: float) -> None:
    assert values.parse(ConfigType.DOUBLE, values.to_text(number) or "") == number


@given(st.lists(WORDS).map(tuple))
def test_a_list_survives_being_written_down(words: tuple[str, ...]) -> None:
    assert values.parse(ConfigType.LIST, values.to_text(words) or "") == words


@given(st.text())
def test_any_text_is_read_or_refused_with_a_reason(text: str) -> None:
    for kind in ConfigType:
        try:
            values.parse(kind, text)
        except ValueError as refused:
            assert str(refused)  # noqa: PT017 - most texts are fine


def test_doubles_are_written_as_java_writes_them() -> None:
    assert values.to_text(1.7976931348623157e308) == "1.7976931348623157E308"
    assert values.to_text(0.5) == "0.5"


def test_numbers_by_address_are_read_and_names_of_hosts_are_none() -> None:
    assert values.numbers_by_address("10.0.0.1:5, [0::1]:7,") == {"10.0.0.1": 5, "::1": 7}
    assert values.numbers_by_address("") == {}
    for wrong in ("localhost:5", "10.0.0.1", "10.0.0.1:", "10.0.0.1:-1", ":5", "10.0.0.1:5;10.0.0.2:6"):
        found = values.objection("max.connections.per.ip.overrides", "addresses", wrong)
        assert found is not None, wrong
        assert "address:number" in found.reason
