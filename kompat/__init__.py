"""kompat: a Kafka broker in one Python process."""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

__version__ = "0.1.0"


def _use_installed_package() -> None:
    """In a checkout, Python imports its kompat rather than the installed one, but it has no native module unless it was built there.

    The installed package then replaces it.
    """
    if PathFinder.find_spec(f"{__name__}._native", __path__) is not None:
        return
    for entry in sys.path:
        spec = PathFinder.find_spec(__name__, [entry])
        places = spec.submodule_search_locations if spec is not None else None
        if spec is None or spec.loader is None or not places or places[0] == __path__[0]:
            continue
        if PathFinder.find_spec(f"{__name__}._native", places) is not None:
            module = sys.modules[__name__] = module_from_spec(spec)
            spec.loader.exec_module(module)
            return
    raise ImportError(
        f"{__path__[0]} has no native module, and no other {__name__} is installed: run `pip install -e .` in the directory above it",
        name=f"{__name__}._native",
        path=__path__[0],
    )


_use_installed_package()
