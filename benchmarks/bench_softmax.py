"""Is a softmax over rows one pass over memory?"""
import pytest

from .common import case_named, run_case


@pytest.mark.parametrize("library", ["numpy", "frit"])
@pytest.mark.parametrize("case", case_named("softmax"), ids=lambda c: c.name)
def test_softmax(benchmark, case, library):
    run_case(benchmark, case, library)
