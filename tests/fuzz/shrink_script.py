"""Makes a failing script small as Python sees it: fewer statements, blocks without their heads, expressions that are parts of
what they were."""
import ast
import copy

from .worlds import block

BODIES = "body", "orelse", "finalbody", "handlers", "cases"


def lists_of(tree):
    """Every list of statements, the outermost first."""
    todo, out = [tree], []
    while todo:
        node = todo.pop(0)
        for field in BODIES:
            inner = getattr(node, field, None)
            if isinstance(inner, list):
                out.append((node, field))
                todo += inner
    return out


def lines_of(tree):
    return [line for line in ast.unparse(ast.fix_missing_locations(tree)).splitlines() if line]


def shrink_script(lines, fails, max_tries=600):
    """The smallest script found for which fails(lines) is still true."""
    tries = 0

    def still(tree):
        nonlocal tries
        tries += 1
        try:
            return tries <= max_tries and fails(lines_of(tree))
        except (ValueError, SyntaxError, RecursionError):
            return False
    try:
        tree = ast.parse(block(lines, 0))
    except SyntaxError:
        return lines
    if not still(tree):     # what the text of a line made different
        return lines
    while True:
        before = lines_of(tree)
        for step in (without_statements, without_heads, with_parts):
            tree = step(tree, still)
        if lines_of(tree) == before or tries > max_tries:
            return before


def without_statements(tree, still):
    i = 0
    while i < len(lists_of(tree)):
        node, field = lists_of(tree)[i]
        size = max(len(getattr(node, field)) // 2, 1)
        while size:
            at, removed = len(getattr(node, field)), False
            while at > 0:
                low = max(at - size, 0)
                old = getattr(node, field)
                new = old[:low] + old[at:]
                if not new and field == "body" and not isinstance(node, ast.Module):
                    new = [ast.Pass()]
                if ast.dump(ast.Module(new, [])) != ast.dump(ast.Module(old, [])):
                    setattr(node, field, new)
                    if still(tree):
                        removed = True
                    else:
                        setattr(node, field, old)
                at = low
            size = size if removed and size == 1 else size // 2
        i += 1
    return tree


def without_heads(tree, still):
    """if b: x becomes x, and so on."""
    i = 0
    while i < len(lists_of(tree)):
        node, field = lists_of(tree)[i]
        k = 0
        while field in ("body", "orelse", "finalbody") and k < len(getattr(node, field)):
            old = getattr(node, field)
            if isinstance(old[k], (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)):
                inner = old[k].cases[0].body if isinstance(old[k], ast.Match) else old[k].body
                setattr(node, field, old[:k] + inner + old[k + 1:])
                if not still(tree):
                    setattr(node, field, old)
            if getattr(old[k], "decorator_list", None):
                kept, old[k].decorator_list = old[k].decorator_list, []
                if not still(tree):
                    old[k].decorator_list = kept
            k += 1
        i += 1
    return tree


def with_parts(tree, still):
    """Expressions become one of their parts, calls and containers lose members."""
    i = 0
    while True:
        places = [(node, field, k) for node in ast.walk(tree) for field, value in ast.iter_fields(node)
                  for k, v in (enumerate(value) if isinstance(value, list) else [(None, value)]) if isinstance(v, ast.expr)]
        if i >= len(places):
            return tree
        node, field, k = places[i]
        value = getattr(node, field)
        old = value if k is None else value[k]
        for new in candidates(old):
            put(node, field, k, new)
            if still(tree):
                break
            put(node, field, k, old)
        else:
            if k is not None and field in ("elts", "args", "targets") and len(value) > 1:
                setattr(node, field, value[:k] + value[k + 1:])
                if still(tree):
                    continue
                setattr(node, field, value)
            i += 1


def put(node, field, k, new):
    if k is None:
        setattr(node, field, new)
    else:
        getattr(node, field)[k] = new


def candidates(old):
    """Smaller expressions, the smallest first."""
    if isinstance(getattr(old, "ctx", None), (ast.Store, ast.Del)) or isinstance(old, (ast.Constant, ast.Name)):
        return
    inner = [v for v in ast.iter_child_nodes(old) if isinstance(v, ast.expr)]
    inner += [w for v in inner if not isinstance(v, ast.Name) for w in ast.iter_child_nodes(v) if isinstance(w, ast.expr)]
    inner = [copy.deepcopy(v) for v in inner if isinstance(getattr(v, "ctx", ast.Load()), ast.Load)]
    yield from sorted(inner, key=lambda v: len(ast.dump(v)))
