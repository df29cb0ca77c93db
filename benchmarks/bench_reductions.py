"""Do sums in NumPy's order run at the speed of memory?"""
import pytest

from .common import case_named, run_case


@pytest.mark.parametrize("library", ["numpy", "frit"])
@pytest.mark.parametrize("case", case_named("sum", "var"), ids=lambda c: c.name)
def test_reductions(benchmark, case, library):
    run_case(benchmark, case, library)
