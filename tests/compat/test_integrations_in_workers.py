"""A vendor's code for TVM's Relay in the processes that try it: they have TVM's names as the process that asks has."""

import json
import os
import subprocess
import sys

from byoc.compat.tvm import INSTALLED, install, mount, uninstall
from byoc.contract.importing import imported_backends

VENDOR = """
import tvm
from tvm.relay.op.contrib import beside  # of the mounted folder

@tvm.ir.register_op_attr("nn.relu", "target.vend")
def relu(expr):
    return True

@tvm.register_func("relay.ext.vend")
def compiled(function):
    raise RuntimeError("no code for " + beside.NAME)
"""


def test_certify_under_tvms_names_starts_new_processes(tmp_path):
    (tmp_path / "vend.py").write_text(VENDOR)
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "beside.py").write_text("NAME = 'vend'\n")
    words = "--mount mounted -m byoc certify vend --import vend.py --only nn.relu --workers 1 --no-saved --json".split()
    done = subprocess.run(
        [sys.executable, "-m", "byoc.compat.tvm", *words], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    found = json.loads(done.stdout)
    texts = [f["text"] for case in found["cases"] for f in case["findings"]]
    assert any("RuntimeError: no code for vend" in text for text in texts), (done.stderr, texts)
    assert not [note for note in found["notes"] if "copies of the process" in note], found["notes"]


def test_names_that_are_taken_away_are_for_nobody_else(tmp_path):
    before = imported_backends()
    install()
    mount(tmp_path)
    assert imported_backends()[0] == INSTALLED and os.environ["BYOC_TVM_MOUNTS"] == str(tmp_path)
    uninstall()
    assert INSTALLED not in imported_backends() and "BYOC_TVM_MOUNTS" not in os.environ
    assert set(imported_backends()) == set(before) - {INSTALLED}
