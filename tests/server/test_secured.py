"""Listeners that do not let everybody in, as their settings change."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from kompat.clock import ManualClock
from kompat.config.load import load
from kompat.errors import ConfigError
from kompat.server.secured import Secured
from tests.security.tokens import Issuer


def settings(keys: Path, mechanisms: str) -> dict[str, str]:
    return {
        "listeners": "SASL_PLAINTEXT://:0",
        "sasl.enabled.mechanisms": mechanisms,
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
    }


@pytest.mark.parametrize("missing", ["jwt", "cryptography"])
async def test_without_the_extra_a_listener_that_takes_tokens_stops_the_start_in_one_line(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load(settings(Issuer(tmp_path).keys, "OAUTHBEARER"), environ={})
    for name in ("kompat.server.token_keys", "kompat.security.tokens"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in [each for each in sys.modules if each.partition(".")[0] == missing]:
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(ConfigError) as refused:
        Secured(config, ManualClock(), config.listeners[0])

    assert str(refused.value).startswith(f"sasl.enabled.mechanisms: OAUTHBEARER needs {missing}")
    assert str(refused.value).endswith("which is not installed: pip install 'kompat[oauth]'")
    assert "\n" not in str(refused.value)


async def test_nothing_of_tokens_is_imported_where_nobody_takes_them() -> None:
    script = (
        "import sys; from kompat.server import secured;"
        " print([name for name in ('jwt', 'cryptography', 'kompat.security.tokens') if name in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert (await process.communicate())[0] == b"[]\n"


async def test_tokens_are_taken_once_a_listener_is_changed_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And a change that cannot be made leaves the listener as it was."""
    issuer = Issuer(tmp_path)
    config = load(settings(issuer.keys, "PLAIN"), environ={})
    secured = Secured(config, ManualClock(), config.listeners[0])

    async def enabled() -> tuple[str, ...]:
        config.change(cluster={}, broker={"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"})
        assert secured._enabling is not None
        await secured._enabling
        assert secured._sasl is not None
        return secured._sasl.mechanisms

    issuer.keys.unlink()
    assert await enabled() == ("PLAIN",)
    assert "a listener stays as it was" in caplog.text

    issuer.publish(issuer)
    config.change(cluster={}, broker={})
    assert await enabled() == ("PLAIN", "OAUTHBEARER")
    config.change(cluster={}, broker={})
    assert secured._sasl is not None
    assert secured._sasl.mechanisms == ("PLAIN",)
