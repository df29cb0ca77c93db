"""python -m tests.fuzz --seeds 0:1000: runs random programs, shrinks and prints what fails.

Programs run in a child process, so that a crash is a finding too and the rest goes on. With --functions they are functions
that are called again and again with other things in reach, with --scripts modules with classes and all that is in them."""
import argparse
import faulthandler
import gc
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time


def parse():
    p = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    p.add_argument("--seeds", default="0:1000", help="first:end")
    p.add_argument("--seconds", type=float, default=0, help="stop after so long")
    p.add_argument("--runs", type=int, default=2, help="times each program runs")
    p.add_argument("--accelerate", action="store_true", help="each program as a function under frit.accelerate")
    p.add_argument("--functions", action="store_true", help="random functions, called again and again (functions.py)")
    p.add_argument("--scripts", action="store_true", help="random programs of classes (scripts.py)")
    p.add_argument("--with", dest="more", default="", metavar="A,B", help="features that are left out otherwise; all")
    p.add_argument("--without", default="", metavar="A,B", help="features to leave out")
    p.add_argument("--show", action="store_true", help="print the programs, run nothing")
    p.add_argument("--keep-going", action="store_true", help="do not stop at the tenth failure")
    p.add_argument("--no-shrink", action="store_true")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return p.parse_args()


def left_out(args, FEATURES, KNOWN):
    """The features that are done without."""
    more, less = (set(filter(None, names.split(","))) for names in (args.more, args.without))
    unknown = (more | less) - {*FEATURES, "all"}
    if unknown:
        sys.exit(f"no feature {', '.join(sorted(unknown))}; there are {', '.join(FEATURES)}")
    return tuple(f for f in FEATURES if f in less or (f in KNOWN and f not in more and "all" not in more))


def ways(args):
    """How the lines of a seed are drawn, judged and printed."""
    if args.functions:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        from .functions import FEATURES, KNOWN, draw
        from .worlds import judge, script
        without = left_out(args, FEATURES, KNOWN)

        def wrong(lines):
            found = judge(lines)
            return found and ": ".join(found)
        return lambda seed: draw(seed, without), wrong, script
    if args.scripts:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        from . import scripts, stage
        without = left_out(args, scripts.FEATURES, scripts.KNOWN)

        def differs(lines):
            found = stage.judge(lines, without)
            return found and ": ".join(found)
        return lambda seed: scripts.draw(seed, without), differs, stage.script
    from . import more, programs
    from .run import compare, compare_accelerated
    without = left_out(args, more.FEATURES, more.KNOWN)
    features = [f for f in more.FEATURES if f not in without]

    def draw(seed):
        return more.draw(seed, features, args.accelerate) if features else programs.draw(seed)
    judge = compare_accelerated if args.accelerate else compare
    return lambda seed: draw(seed).lines, lambda lines: judge(lines, args.runs), "\n".join


def child(args):
    """Reads programs as JSON lines, answers each with a JSON line."""
    faulthandler.enable()
    draw, judge, _ = ways(args)
    threading.excepthook = lambda told: None        # (what a script that is made smaller raises anywhere)
    gc.collect()
    gc.freeze()         # so that what a program leaves behind is found among few objects
    for line in sys.stdin:
        job = json.loads(line)
        lines = job["lines"] if "lines" in job else draw(job["seed"])
        try:
            answer = judge(lines)
        except ValueError as e:
            answer = f"not a program: {e.__cause__!r}" if "seed" in job else "invalid"
        print(json.dumps(answer), flush=True)


MAX_BYTES = 8 << 30   # of address space: what a function makes of its own results may grow
CHILD_RUNS = 5000     # programs of one process, which keeps what it has compiled


class Child:
    """A process that runs programs; started anew when it died or hangs."""

    def __init__(self, args):
        self.options = (["--runs", str(args.runs)] + ["--accelerate"] * args.accelerate + ["--functions"] * args.functions + ["--scripts"] * args.scripts
                        + ["--with", args.more, "--without", args.without])
        # Plans at once, as the tests have them (conftest.py), so that the fourth call of a function is recorded.
        self.env = {"FRIT_EAGER_ELEMS": "0", **os.environ} if args.functions or args.scripts else None
        self.process, self.asked = None, 0

    def ask(self, job, timeout=120, anew=True):
        self.asked += 1
        if self.asked % CHILD_RUNS == 0:
            self.close()
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "--child", *self.options],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.getcwd(), env=self.env)
        p = self.process
        try:
            p.stdin.write(json.dumps(job) + "\n")
            p.stdin.flush()
            if not select.select([p.stdout], [], [], timeout)[0]:
                p.send_signal(signal.SIGABRT)       # and says where
                answer = "hangs"
            else:
                line = p.stdout.readline()
                if line:
                    answer = json.loads(line)
                    if answer is not None and anew:     # what failed may have left something behind
                        self.close()
                    return answer
                answer = f"the process ended with {p.wait()}"
        except BrokenPipeError:
            answer = f"the process ended with {p.wait()}"
        p.wait()
        self.process = None
        return answer

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
            self.process = None


def main():
    args = parse()
    if args.child:
        return child(args)
    from .shrink import shrink
    from .shrink_script import shrink_script
    draw, _, text = ways(args)
    first, end = map(int, args.seeds.split(":"))
    if args.show:
        for seed in range(first, end):
            print(f"# seed {seed}", text(draw(seed)), "", sep="\n")
        return 0
    if args.accelerate:
        args.runs = max(args.runs, 6)       # the fourth is recorded
    runner, failed, refused, done, start = Child(args), [], [], 0, time.monotonic()
    for seed in range(first, end):
        if args.seconds and time.monotonic() - start > args.seconds:
            break
        answer = runner.ask({"seed": seed})
        done += 1
        if sys.stderr.isatty():
            print(f"\r{done} programs, {len(failed)} failed", end="", file=sys.stderr)
        if answer is None:
            continue
        # Drawn with NumPy's values and judged with frit's, a mask may count one element more or less. That is rare.
        # Of functions, those that use what only frit has are refused, too.
        if str(answer).startswith("not a program") and (args.accelerate or args.scripts or len(refused) < 1 + done // 5000):
            refused.append(seed)
            continue
        failed.append(seed)
        print(f"\nseed {seed}: {answer}")
        lines = draw(seed)
        if not args.no_shrink:
            def fails(candidate):
                a = runner.ask({"lines": candidate}, timeout=30, anew=not (args.functions or args.scripts))
                # Of a function, what is wrong stays of one kind.
                return a is not None and a != "invalid" and (not (args.functions or args.scripts) or a.split(":")[0] == answer.split(":")[0])
            lines = shrink_script(lines, fails) if args.scripts else shrink(lines, fails, max_tries=400)
            runner.close()
            print("  smaller:", runner.ask({"lines": lines}))
        print("\n".join("    " + k for k in text(lines).splitlines()), flush=True)
        if len(failed) >= 10 and not args.keep_going:
            break
    runner.close()
    print(f"\nfuzz: seeds {first}:{first + done}, {done - len(failed) - len(refused)} passed, {len(failed)} failed"
          + (f" {failed}" if failed else "") + (f", {len(refused)} refused by NumPy {refused if len(refused) < 20 else ''}" if refused else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
