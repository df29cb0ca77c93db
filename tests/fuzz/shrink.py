"""Makes a failing program small: fewer lines, then smaller and plainer arrays."""
import re


def shrink(lines, fails, max_tries=2000):
    """The smallest program found for which fails(lines) is still true."""
    tries = 0

    def still(candidate):
        nonlocal tries
        tries += 1
        return tries <= max_tries and fails(candidate)

    size = max(len(lines) // 2, 1)
    while size:
        i, removed = len(lines), False
        while i > 0:
            lo = max(i - size, 0)
            shorter = lines[:lo] + lines[i:]
            if shorter and still(shorter):
                lines, removed = shorter, True
            i = lo
        if not removed:
            size //= 2
    return simplify(lines, still)


def simpler(line):
    """Variants of a data(...) line with smaller shapes and plainer values, boldest first."""
    m = re.search(r"data\('(\S+)', \(([^)]*)\), (\d+)(?:, '(.)')?\)", line)
    if not m:
        return
    dtype, dims, seed, order = m[1], [int(d) for d in m[2].split(",") if d.strip()], m[3], m[4]

    def made(dims, dtype=dtype, order=order):
        text = ", ".join(map(str, dims)) + ("," if len(dims) == 1 else "")
        tail = f", {order!r}" if order and order != "C" else ""
        return line[:m.start()] + f"data({dtype!r}, ({text}), {seed}{tail})" + line[m.end():]

    if order == "F":
        yield made(dims, order="C")
    for i, d in enumerate(dims):
        for smaller in sorted({1, 2, 3, d // 2, d - 1}):
            if 0 < smaller < d:
                yield made(dims[:i] + [smaller] + dims[i + 1:])
    if dtype not in ("f8", "i8"):
        yield made(dims, dtype="f8")


def simplify(lines, still):
    progress = True
    while progress:
        progress = False
        for i, line in enumerate(lines):
            for other in simpler(line):
                # A size that several arrays share has to shrink in all of them.
                candidates = [lines[:i] + [other] + lines[i + 1:]]
                old, new = re.search(r"\([^)]*\),", line), re.search(r"\([^)]*\),", other)
                if old and new and old[0] != new[0]:
                    candidates.append([k.replace(old[0], new[0]) for k in lines])
                for c in candidates:
                    if c != lines and still(c):
                        lines, progress = c, True
                        break
                if progress:
                    break
            if progress:
                break
    return lines
