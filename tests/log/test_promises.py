"""A promise of several."""

from kompat.errors import ErrorCode, KafkaError
from kompat.log.commit import Pending, all_of


def test_a_promise_of_several_is_kept_when_all_are() -> None:
    first, second = Pending(), Pending()
    whole = all_of([first, second, first])
    first.resolve()
    assert not whole.is_done
    second.resolve()
    assert whole.is_done
    assert whole.error is None


def test_it_is_broken_as_the_first_that_is_but_not_before_all_have_ended() -> None:
    first, second, third = Pending(), Pending(), Pending()
    whole = all_of([first, second, third])
    second.resolve(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "full"))
    first.resolve()
    assert not whole.is_done
    third.resolve(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "gone"))
    assert whole.error is not None
    assert whole.error.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_of_one_it_is_that_one_and_of_kept_ones_it_is_kept() -> None:
    only = Pending()
    assert all_of([only, only]) is only
    assert all_of([Pending.done(), Pending.done()]).is_done
