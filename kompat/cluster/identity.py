"""The id of a new cluster, and its secret."""

import base64
import secrets
from uuid import uuid4

from kompat.security.stand_ins import SECRET_BYTES


def new_cluster_id() -> str:
    """An id in Kafka's format: 22 characters, none of which a command line takes for a flag."""
    while True:
        found = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        if not found.startswith("-"):
            return found


def new_secret() -> bytes:
    """The secret for credentials of users that do not exist."""
    return secrets.token_bytes(SECRET_BYTES)
