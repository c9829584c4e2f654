"""The broker configs that concern its logs."""

from __future__ import annotations

from kompat.config.broker import BrokerConfig
from kompat.log.cleaner import CleanerSettings
from kompat.log.manager import LogSettings
from kompat.log.scrubbing import ScrubSettings


def log_settings(config: BrokerConfig) -> LogSettings:
    return LogSettings(
        cache_bytes=config["kompat.cache.bytes"],
        retention_check_interval_ms=config["log.retention.check.interval.ms"],
        producer_id_expiration_ms=config["producer.id.expiration.ms"],
        cleaner=CleanerSettings(
            dedupe_buffer_size=config["log.cleaner.dedupe.buffer.size"],
            io_max_bytes_per_second=config["log.cleaner.io.max.bytes.per.second"],
            backoff_ms=config["log.cleaner.backoff.ms"],
            is_enabled=config["log.cleaner.enable"],
        ),
        scrub=ScrubSettings(
            interval_ms=config["kompat.scrub.interval.ms"], bytes_per_second=config["kompat.scrub.bytes.per.second"]
        ),
    )
