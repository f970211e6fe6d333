"""The real vLLM and SGLang, found without importing them and asked for their flags by their own help."""

import os
import time

import pytest

from tests.programs import made_by
from upright.base.host import LocalHost
from upright.planning.probing import probe

pytestmark = pytest.mark.slow


@pytest.fixture(params=["vllm", "sglang"])
def engine(request):
    """Its name and its environment: UPRIGHT_TEST_VLLM names one that is there, else it is made."""
    named = os.environ.get(f"UPRIGHT_TEST_{request.param.upper()}")
    return request.param, named or made_by(f"get-{request.param}")


FLAGS = {
    "vllm": {"--tensor-parallel-size", "-tp", "--kv-cache-dtype", "--no-enable-prefix-caching", "--tool-call-parser"},
    "sglang": {"--tp-size", "--mem-fraction-static", "--attention-backend", "--tool-call-parser", "--kv-cache-dtype"},
}


@pytest.mark.timeout(1800)
def test_version_at_once_and_flags_on_request(engine, monkeypatch):
    name, environment = engine
    monkeypatch.setenv("PATH", f"{environment}/bin:{os.environ['PATH']}")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    begun = time.monotonic()
    (found,) = [each for each in probe(LocalHost()).engines if each.program == f"{environment}/bin/{name}"]
    seconds = time.monotonic() - begun
    assert (found.engine, found.flags) == (name, None)
    assert found.version
    assert found.version[0].isdecimal()
    (asked,) = [each for each in probe(LocalHost(), flags=True).engines if each.program == found.program]
    flags = set(asked.flags or ())
    assert flags >= FLAGS[name]
    assert len(flags) > 300
    print(f"{name} {found.version}: version in {seconds:.1f} s, {len(flags)} flags")
