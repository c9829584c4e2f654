"""docs/settings.md."""

from kompat.config import reference
from kompat.config.broker import DEFINITIONS
from kompat.config.definitions import Standing


def test_the_page_is_current() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run python -m kompat.config.reference"


def test_whatever_kompat_acts_on_is_explained() -> None:
    silent = [name for name, each in DEFINITIONS.items() if each.standing is Standing.USED and not each.documentation]
    assert not silent
