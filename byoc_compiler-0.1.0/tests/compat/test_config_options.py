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
