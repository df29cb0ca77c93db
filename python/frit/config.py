"""Settings: `with frit.config(debug=3):`, and `python -m frit.config` lists them all.

The module is callable; what it gives is a context that puts the old values back."""
from __future__ import annotations

import sys
import types
from typing import Any

from . import _core


def _value_of(name: str) -> int | str:
    try:
        return _core.config_get(name)
    except KeyError as error:
        from ._names import near
        found = near(name, [s["name"] for s in settings()]) or "; python -m frit.config lists them"
        raise KeyError(f"{error.args[0]}{found}") from None


class _Settings:
    """Settings that were changed, and how to change them back."""

    def __init__(self, changes: dict[str, Any]) -> None:
        self.old = {}
        try:
            for name, value in changes.items():
                old = _value_of(name)
                _core.config_set(name, value)
                self.old[name] = old
        except BaseException:
            self.restore()
            raise

    def restore(self) -> None:
        for name, value in self.old.items():
            _core.config_set(name, value)
        self.old = {}

    def __enter__(self) -> _Settings:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.restore()


class _Config(types.ModuleType):
    def __call__(self, **changes: Any) -> _Settings:
        """Changes settings at once; as a context manager, until its end.

            >>> with frit.config(num_threads=1):
            ...     frit.config.threads()
            1

        ValueError names what a setting may be, and those that are read at import only; KeyError: there is no such setting;
        TypeError: it is a text, or a number. Then none of those that were given has changed."""
        return _Settings(changes)


def settings() -> list[dict[str, Any]]:
    """Every setting as a dict: name, variable, value, default, what is allowed, help.

        >>> [s["value"] for s in frit.config.settings() if s["variable"] == "FRIT_CACHE_MB"]
        [512]
    """
    return _core.config_list()


def ways() -> list[dict[str, Any]]:
    """Every way in which a call, an operation or an evaluation is answered, in the order in which they are tried, as a dict:
    name (stats() counts by it), whether FRIT_OFF can leave it out, when it fits, what runs, and why."""
    return _core.ways()


def tuned() -> list[dict[str, Any]]:
    """The numbers that depend on the machine as dicts: name, value, default, least, most, unit, and what it is and how it was
    measured. FRIT_TUNE="name=value, ..." sets others."""
    return _core.tuned()


def threads() -> int:
    """How many threads run kernels: FRIT_NUM_THREADS, or as many as there are processors for this process."""
    return int(_core.show_config()["threads"])


def main() -> None:
    for s in settings():
        changed = str(s["value"]) != str(s["default"]).strip('"')
        print(f"{s['variable']}={s['value']}{'   (changed)' if changed else ''}\n    {s['help']} ({s['allowed']})")
    for t in tuned():
        print(f"FRIT_TUNE={t['name']}={t['value']} {t['unit']}{'   (changed)' if t['value'] != t['default'] else ''}\n"
              f"    {t['measured']} ({t['least']} to {t['most']})")
    for w in ways():
        print(f"way {w['name']}{' (FRIT_OFF)' if w['can_be_off'] else ''}: {w['fits']}\n    {w['runs']}: {w['why']}")


sys.modules[__name__].__class__ = _Config

if __name__ == "__main__":
    main()
