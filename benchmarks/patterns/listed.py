"""Where the patterns are listed."""
PATTERNS = {}


def pattern(make):
    """Lists a maker of (step, state, function, arguments): step() goes on, state() gives the arrays it changes, function maps
    these and arguments() to what they are next; function is None where no function of arrays does the same."""
    PATTERNS[make.__name__] = make
    return make
