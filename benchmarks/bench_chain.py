"""How much does fusing save on chains of element-wise operations, cheap and dear?"""
import pytest

from .common import case_named, run_case


@pytest.mark.parametrize("library", ["numpy", "frit"])
@pytest.mark.parametrize("case", case_named("10 operations") + case_named("gelu") + case_named("Black"), ids=lambda c: c.name)
def test_chain(benchmark, case, library):
    run_case(benchmark, case, library)
