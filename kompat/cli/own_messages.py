"""Messages that kafka-python lacks, made from kompat's definitions, so that its connections can send them."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage

_DEFINITIONS = "kompat.protocol.messages.definitions"


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_DEFINITIONS):  # type: ignore[call-arg, misc]
    pass


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_DEFINITIONS):  # type: ignore[call-arg, misc]
    pass


class ShareGroupDescribeRequest(ApiMessage, load_json=_DEFINITIONS):  # type: ignore[call-arg, misc]
    pass


class ShareGroupDescribeResponse(ApiMessage, load_json=_DEFINITIONS):  # type: ignore[call-arg, misc]
    pass


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=_DEFINITIONS):  # type: ignore[call-arg, misc]
    pass


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=_DEFINITIONS):  # type: ignore[call-arg, misc]
    pass


class AlterShareGroupOffsetsRequest(ApiMessage, load_json=_DEFINITIONS):  # type: ignore[call-arg, misc]
    pass


class AlterShareGroupOffsetsResponse(ApiMessage, load_json=_DEFINITIONS):  # type: ignore[call-arg, misc]
    pass


class UnregisterBrokerRequest(ApiMessage, load_json=_DEFINITIONS):  # type: ignore[call-arg, misc]
    pass


class UnregisterBrokerResponse(ApiMessage, load_json=_DEFINITIONS):  # type: ignore[call-arg, misc]
    pass
