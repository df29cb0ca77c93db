"""python -m frit.estimate script.py [args]: what a script would take: memory, time, bytes and operations, without computing it.

As a module it is the function frit.estimate (_estimate.py)."""
import argparse
import json
import sys
from typing import Any

from .__main__ import script
from ._estimate import Estimate, estimate, run
from ._files import write_whole
from ._install import execute
from ._limits import Difference, bytes_of
from ._units import bytes_text
from .accelerate import CallStats


def main(arguments: list[str]) -> int:
    p = argparse.ArgumentParser(prog="python -m frit.estimate", description="What a script would take: memory, time, bytes and "
                                "operations, without computing it.")
    p.add_argument("--values", choices=("small", "all"), default="small", help="all: values that Python needs are computed")
    p.add_argument("--unknown", type=float, help="what a value is taken to be that Python needs and that is not known")
    p.add_argument("--json", metavar="FILE", help="write the estimate")
    p.add_argument("--html", metavar="FILE", help="write it as a page")
    p.add_argument("--against", metavar="FILE", help="compare with one that was written before")
    p.add_argument("--tolerance", type=float, default=0.0, help="by what share bytes and operations may have grown")
    p.add_argument("--memory", help="fail if it needs more: 16GB")
    p.add_argument("script")
    p.add_argument("args", nargs=argparse.REMAINDER)
    a = p.parse_args(arguments)
    memory = None if a.memory is None else bytes_of(a.memory)
    before = _read(a.against) if a.against else None
    code, module = script(a.script, a.args)
    out = Estimate(a.script)
    run(out, lambda: execute(code, module.__dict__, CallStats()), (), a.values, a.unknown)
    print(out)
    if a.json:
        write_whole(a.json, json.dumps(out.as_dict(), indent=1).encode())
    if a.html:
        write_whole(a.html, out.html().encode())
    if memory is not None and out.total_bytes > memory:
        print(f"it needs {bytes_text(out.total_bytes)}, more than {bytes_text(memory)}", file=sys.stderr)
        return 1
    if before is not None:
        difference = Difference(before, out.as_dict())
        print(difference)
        try:
            difference.check(peak_bytes=a.tolerance, bytes=a.tolerance, ops=a.tolerance)
        except AssertionError as error:
            print(error, file=sys.stderr)
            return 1
    return 0


def _read(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf8") as file:
            e = json.load(file)
        if not isinstance(e, dict) or not {"name", "peak_bytes", "kernels", "us"} <= set(e):
            raise ValueError("it is no estimate")
        return e
    except (OSError, ValueError) as error:
        raise SystemExit(f"frit.estimate: {path}: {error}") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
sys.modules[__name__] = estimate        # type: ignore[assignment]
