"""python -m frit.profile script.py [args]: where the time of a script goes that runs as `python -m frit` runs it.

As a module it is the function frit.profile (_profile.py)."""
import argparse
import sys

from .__main__ import script
from ._install import run_program
from ._profile import profile
from .accelerate import CallStats


def main(arguments: list[str]) -> int:
    p = argparse.ArgumentParser(prog="python -m frit.profile", description="Where the time of a script goes, which runs on frit.")
    p.add_argument("--trace", metavar="FILE", help="write all events, for https://ui.perfetto.dev")
    p.add_argument("--html", metavar="FILE", help="write it as a page")
    p.add_argument("--processes", action="store_true", help="of the processes that it begins, too")
    p.add_argument("--events", type=int, default=1 << 16, help="how many are kept one by one")
    p.add_argument("script")
    p.add_argument("args", nargs=argparse.REMAINDER)
    a = p.parse_args(arguments)
    code, module = script(a.script, a.args)
    seen = profile(name=a.script, events=a.events, processes=a.processes)
    status = 0
    with seen:
        try:
            run_program(code, module.__dict__, CallStats())
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
    print(seen, file=sys.stderr)
    for path in (a.trace, a.html):
        if path:
            seen.save(path)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
sys.modules[__name__] = profile        # type: ignore[assignment]
