"""Modules and names of TVM's that integrations import before they do anything."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest


def test_the_names_that_integrations_ask_for_while_they_are_loaded(tvm):
    from tvm import relay
    from tvm.target.codegen import llvm_version_major

    assert isinstance(llvm_version_major(), int) and isinstance(llvm_version_major(allow_none=True), int)
    assert tvm.target.codegen.llvm_version_major is llvm_version_major
    relay.backend.te_compiler.get().clear()
    assert relay.nn.Constant is relay.Constant and relay.testing.enabled_targets()[0][0] == "llvm"
    from tvm.relay.base import RelayNode, SequentialSpan, SourceName, Span, astext, pretty_print

    assert isinstance(relay.var("x"), RelayNode) and Span is relay.Span and SourceName is relay.SourceName
    assert SequentialSpan is relay.SequentialSpan
    assert pretty_print(relay.var("x", shape=(2,))) in astext(relay.var("x", shape=(2,)))


def test_a_script_names_the_back_end_s_modules_without_importing_them():
    source = (
        "import byoc.compat.tvm as c; c.install()\n"
        "import sys\n"
        "from tvm import relay\n"
        "import tvm\n"
        "relay.backend.te_compiler.get().clear(); relay.backend.interpreter; relay.SpanCheck; tvm.ir.diagnostics\n"
        "assert 'pytest' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", source], check=True)


def test_dilation_puts_a_value_between_neighbours(tvm):
    from tvm import relay

    x = relay.var("x", shape=(1, 3, 4))
    call = relay.nn.dilate(x, (1, 2, 3), dilation_value=-1.0)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(call))
    assert tuple(int(n) for n in mod["main"].ret_type.shape) == (1, 5, 10)
    data = np.arange(12, dtype="float32").reshape(1, 3, 4)
    from tvm.topi.testing import dilate_python

    for kind in ("graph", "vm", "debug"):
        found = relay.create_executor(kind, mod, tvm.cpu(), "llvm").evaluate()(data).numpy()
        np.testing.assert_array_equal(found, dilate_python(data, (1, 2, 3), -1.0))
    assert "dilation_value=-1f" in mod.astext()
    with pytest.raises(tvm.TVMError, match="strides"):
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.nn.dilate(x, (2, 2))))


def test_multibox_transform_loc_keeps_the_background_where_it_is_asked_to(tvm):
    from tvm import relay

    scores = np.array([[[0.8, 0.2, 0.3], [0.1, 0.7, 0.35], [0.1, 0.1, 0.35]]], "float32")
    moves, anchors = np.zeros((1, 12), "float32"), np.tile(np.array([0.1, 0.1, 0.3, 0.3], "float32"), (1, 3, 1))
    args = [relay.const(v) for v in (scores, moves, anchors)]

    def classes(**options):
        call = relay.vision.multibox_transform_loc(*args, threshold=0.5, **options)
        boxes, valid = relay.create_executor("debug", tvm.IRModule.from_expr(call.astuple())).evaluate()()
        return boxes.numpy()[0, :, 0].tolist(), valid.numpy().tolist()

    assert classes() == ([0.0, -1.0, -1.0], [1])
    assert classes(keep_background=True) == ([0.0, 1.0, 0.0], [3])


def test_a_tuple_wrapper_has_the_text_of_its_tuple(tvm):
    from tvm import relay

    parts = relay.split(relay.var("x", shape=(4,)), 2)
    assert parts.astext() == parts.astuple().astext() and "split" in parts.astext()


# diagnostics ----------------------------------------------------------------------------------------------------


@pytest.fixture
def seen(tvm):
    """What the renderer was shown: a list of messages for each time that it was called."""
    shown = []
    tvm.ir.diagnostics.override_renderer(lambda ctx: shown.append([d.message for d in ctx.diagnostics]))
    yield shown
    tvm.ir.diagnostics.override_renderer(None)


def _unmatched(tvm):
    from tvm import relay

    x = relay.var("x", shape=(2, 3))
    return tvm.IRModule.from_expr(relay.Function([x], x, relay.TensorType((1, 3))))


def test_a_renderer_is_called_once_before_a_pass_raises(tvm, seen):
    from tvm import relay

    with pytest.raises(tvm.error.DiagnosticError) as caught:
        tvm.transform.Sequential([relay.transform.InferType()])(_unmatched(tvm))
    assert caught.type is tvm.error.DiagnosticError and isinstance(caught.value, RuntimeError)
    assert len(seen) == 1
    assert (
        "The Relay type checker is unable to show the following types match:\n"
        "  Tensor[(2, 3), float32]\n  Tensor[(1, 3), float32]\nIn particular:\n"
        "  dimension 0 conflicts: 2 does not match 1."
    ) in seen[0][0]


def test_types_of_other_ranks_and_dtypes_are_distinguished(tvm, seen):
    from tvm import relay

    for wanted, said in (
        (relay.TensorType((3,)), "has 2 dimensions, while `Tensor[(3), float32]` has 1 dimensions"),
        (relay.TensorType((2, 3), "int8"), "In particular `Tensor[(2, 3), float32]` does not match"),
    ):
        x = relay.var("x", shape=(2, 3))
        with pytest.raises(tvm.TVMError):
            relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], x, wanted)))
        assert said in seen[-1][0]


def test_the_parser_s_errors_are_shown_too(tvm, seen):
    with pytest.raises(tvm.error.DiagnosticError):
        tvm.relay.parse('#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { %y }')
    assert len(seen) == 1


def test_without_a_renderer_the_error_is_raised_as_it_is(tvm, capsys):
    from byoc.errors import TypeInferenceError

    with pytest.raises(TypeInferenceError, match="declared to return"):
        tvm.relay.transform.InferType()(_unmatched(tvm))
    assert capsys.readouterr().out == ""


def test_contexts_and_renderers_are_made_and_shown(tvm, capsys):
    from tvm.ir.diagnostics import (
        Diagnostic,
        DiagnosticContext,
        DiagnosticLevel,
        DiagnosticRenderer,
        get_renderer,
        override_renderer,
    )

    levels = {level.name: int(level) for level in DiagnosticLevel}
    assert levels == {"BUG": 10, "ERROR": 20, "WARNING": 30, "NOTE": 40, "HELP": 50}
    shown = []
    context = DiagnosticContext(tvm.IRModule(), DiagnosticRenderer(lambda ctx: shown.extend(ctx.diagnostics)))
    context.emit(Diagnostic(DiagnosticLevel.NOTE, None, "a note"))
    context.render()
    assert [d.message for d in shown] == ["a note"]
    context.emit(Diagnostic(DiagnosticLevel.ERROR, None, "an error"))
    with pytest.raises(tvm.error.DiagnosticError, match="an error"):
        context.render()
    renderer = get_renderer()
    override_renderer(renderer)
    assert get_renderer() is renderer
    override_renderer(None)
    get_renderer().render(context)
    assert "error: an error" in capsys.readouterr().out


def test_expressions_without_a_span_are_reported_and_left(tvm, seen):
    from tvm import relay

    mod = tvm.IRModule.from_expr(relay.nn.relu(relay.var("x", shape=(2,))))
    assert relay.SpanCheck()(mod)["main"] is mod["main"]
    assert seen == [["a Call of @main has no span"]]
