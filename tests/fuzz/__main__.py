"""python -m tests.fuzz --seeds 0:1000: runs random programs, shrinks and prints what fails.

Programs run in a child process, so that a crash is a finding too and the rest goes on."""
import argparse
import json
import os
import subprocess
import sys
import time


def parse():
    p = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    p.add_argument("--seeds", default="0:1000", help="first:end")
    p.add_argument("--seconds", type=float, default=0, help="stop after so long")
    p.add_argument("--runs", type=int, default=2, help="times each program runs")
    p.add_argument("--accelerate", action="store_true", help="each program as a function under frit.accelerate")
    p.add_argument("--show", action="store_true", help="print the programs, run nothing")
    p.add_argument("--keep-going", action="store_true", help="do not stop at the tenth failure")
    p.add_argument("--no-shrink", action="store_true")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return p.parse_args()


def child(args):
    """Reads programs as JSON lines, answers each with a JSON line."""
    from .programs import draw
    from .run import compare, compare_accelerated
    judge = compare_accelerated if args.accelerate else compare
    for line in sys.stdin:
        job = json.loads(line)
        lines = job["lines"] if "lines" in job else draw(job["seed"]).lines
        try:
            answer = judge(lines, args.runs)
        except ValueError as e:
            answer = f"not a program: {e.__cause__!r}" if "seed" in job else "invalid"
        print(json.dumps(answer), flush=True)


class Child:
    """A process that runs programs; started anew when it died or hangs."""

    def __init__(self, args):
        self.options = ["--runs", str(args.runs)] + ["--accelerate"] * args.accelerate
        self.process = None

    def ask(self, job, timeout=120):
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.fuzz", "--child", *self.options],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=os.getcwd())
        p = self.process
        try:
            p.stdin.write(json.dumps(job) + "\n")
            p.stdin.flush()
            import select
            if not select.select([p.stdout], [], [], timeout)[0]:
                p.kill()
                answer = "hangs"
            else:
                line = p.stdout.readline()
                if line:
                    answer = json.loads(line)
                    if answer is not None:      # what failed may have left something behind
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
    from .programs import draw
    from .shrink import shrink
    first, end = map(int, args.seeds.split(":"))
    if args.show:
        for seed in range(first, end):
            print(f"# seed {seed}", draw(seed).text(), "", sep="\n")
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
        if str(answer).startswith("not a program") and (args.accelerate or len(refused) < 1 + done // 5000):
            refused.append(seed)
            continue
        failed.append(seed)
        print(f"\nseed {seed}: {answer}")
        lines = draw(seed).lines
        if not args.no_shrink:
            def fails(candidate):
                a = runner.ask({"lines": candidate}, timeout=30)
                return a is not None and a != "invalid"
            lines = shrink(lines, fails, max_tries=400)
            print("  smaller:", runner.ask({"lines": lines}))
        print("\n".join("    " + k for k in lines), flush=True)
        if len(failed) >= 10 and not args.keep_going:
            break
    runner.close()
    print(f"\nfuzz: seeds {first}:{first + done}, {done - len(failed) - len(refused)} passed, {len(failed)} failed"
          + (f" {failed}" if failed else "") + (f", {len(refused)} refused by NumPy {refused if len(refused) < 20 else ''}" if refused else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
