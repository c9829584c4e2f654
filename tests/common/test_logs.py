import logging

from kompat.common import logs

FAILURE = (ValueError, ValueError("why"), None)


def line(*, is_watched: bool = False, **record: object) -> str:
    made = logging.makeLogRecord({"name": "kompat.x", "levelname": "INFO", "created": 0.25, **record})
    return logs.PairFormatter(is_watched=is_watched).format(made)


def test_an_event_is_a_line_of_pairs() -> None:
    assert line(msg="ready") == "time=1970-01-01T00:00:00.250Z level=info logger=kompat.x message=ready"


def test_facts_follow_the_message() -> None:
    assert line(msg="closing", client="10.0.0.1", correlation_id=7).endswith(
        "message=closing client=10.0.0.1 correlation_id=7"
    )


def test_a_value_that_would_break_the_line_is_quoted() -> None:
    assert line(msg="two words", name_="a=b", empty="", lines="1\n2").endswith(
        'message="two words" name_="a=b" empty="" lines="1\\n2"'
    )


def test_a_traceback_stays_on_the_line() -> None:
    text = line(msg="failed", exc_info=FAILURE)

    assert "\n" not in text
    assert "ValueError: why" in text


def test_a_traceback_is_readable_where_somebody_watches() -> None:
    text = line(is_watched=True, msg="failed", exc_info=FAILURE)

    assert text.endswith("\nValueError: why")
