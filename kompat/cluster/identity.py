"""The id of a new cluster."""

import base64
from uuid import uuid4


def new_cluster_id() -> str:
    """As Kafka writes ids: 22 characters, none of which a command line takes for a flag."""
    while True:
        found = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        if not found.startswith("-"):
            return found
