"""Is an optimizer step over many tensors one dispatch?"""
import pytest

from .common import case_named, run_case


@pytest.mark.parametrize("library", ["numpy", "frit"])
@pytest.mark.parametrize("case", case_named("Adam"), ids=lambda c: c.name)
def test_adam(benchmark, case, library):
    run_case(benchmark, case, library)
