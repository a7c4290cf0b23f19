"""Options of a PassContext under TVM's names: those below the graph are taken, unknown ones are refused."""

import pytest


def test_options_of_what_lies_below_the_graph_are_taken_and_unknown_ones_refused(installed):
    import tvm

    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}) as context:
        assert context.config["tir.disable_vectorize"] is True
    with tvm.transform.PassContext(config={"relay.backend.use_auto_scheduler": True}):
        pass
    with pytest.raises(AttributeError, match="Invalid config option"):
        tvm.transform.PassContext(config={"tir.no_such_option": True})


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [
        ("relay.backend.use_auto_scheduler", "yes", "IntImm"),
        ("relay.backend.use_meta_schedule", 0.5, "IntImm"),
        ("relay.backend.use_meta_schedule_dispatch", [1], "IntImm"),
        ("relay.backend.tir_converter", 1, "runtime.String"),
        ("relay.FuseOps.max_depth", None, "IntImm"),
        ("tir.add_lower_pass", 3, "Array"),
    ],
)
def test_an_option_of_another_type_is_refused(tvm, option, value, kind):
    with pytest.raises(AttributeError, match=f"expect config {option} to have type {kind}"):
        tvm.transform.PassContext(config={option: value})


def test_numbers_stand_for_bools_and_sequences_for_arrays(tvm):
    options = {"relay.backend.use_auto_scheduler": 1, "relay.FuseOps.max_depth": 10, "tir.add_lower_pass": ((0, len),)}
    with tvm.transform.PassContext(config=options) as context:
        assert context.config["relay.FuseOps.max_depth"] == 10


def test_the_options_of_a_registered_code_generator_are_taken(tvm):
    key = "relay.ext.acme_configured.options"
    with pytest.raises(AttributeError, match=f"Invalid config option '{key}'"):
        tvm.transform.PassContext(config={key: {"speed": 1}})
    tvm.register_func("relay.ext.acme_configured", lambda function: None, override=True)
    with tvm.transform.PassContext(config={key: {"speed": 1}}):
        assert tvm.transform.PassContext.current().config[key]["speed"] == 1
    with pytest.raises(AttributeError, match=f"expect config {key} to have type Map"):
        tvm.transform.PassContext(config={key: 3})
