import pytest

from kompat.config.broker import BrokerConfig
from kompat.config.groups import check_group_limits, group_value
from kompat.errors import ErrorCode, KafkaError


def test_a_groups_own_setting_wins_over_the_brokers() -> None:
    config = BrokerConfig({"group.consumer.session.timeout.ms": "46000"})

    assert group_value("consumer.session.timeout.ms", {}, config) == 46000
    assert group_value("consumer.session.timeout.ms", {"consumer.session.timeout.ms": "50000"}, config) == 50000
    assert group_value("share.auto.offset.reset", {}, config) == "latest"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"consumer.session.timeout.ms": "5"}, "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"),
        ({"consumer.session.timeout.ms": "500000"}, "consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms"),
        ({"share.record.lock.duration.ms": "5000"}, "share.record.lock.duration.ms must be greater than or equal to group.share.min.record.lock.duration.ms"),
        ({"share.delivery.count.limit": "50"}, "share.delivery.count.limit must be less than or equal to group.share.max.delivery.count.limit"),
        ({"streams.num.standby.replicas": "9"}, "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas"),
        ({"share.partition.max.record.locks": "50"}, "Invalid value 50 for configuration share.partition.max.record.locks: Value must be at least 100"),
        ({"foo": "1"}, "Unknown group config name: foo"),
    ],
)  # fmt: skip
def test_a_group_stays_within_the_brokers_limits(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError) as raised:
        check_group_limits(overrides, BrokerConfig())

    assert raised.value.code is ErrorCode.INVALID_CONFIG
    assert raised.value.message == message


def test_a_member_has_time_for_more_than_one_heartbeat() -> None:
    config = BrokerConfig(
        {"group.consumer.min.session.timeout.ms": "5000", "group.consumer.min.heartbeat.interval.ms": "1"}
    )
    wanted = {"consumer.session.timeout.ms": "9000", "consumer.heartbeat.interval.ms": "9000"}

    with pytest.raises(KafkaError, match=r"session\.timeout\.ms must be greater than consumer\.heartbeat"):
        check_group_limits(wanted, config)
    check_group_limits(wanted | {"consumer.heartbeat.interval.ms": "8999"}, config)
