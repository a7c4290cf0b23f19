"""What tests of passes and networks are written with: networks, their parameters, passes over one expression.

Source: ``relay.testing``.
"""

from byoc.annex.testing import (
    byoc,
    dcgan,
    densenet,
    dqn,
    inception_v3,
    layers,
    lstm,
    mlp,
    mobilenet,
    nat,
    resnet,
    resnet_3d,
    squeezenet,
    synthetic,
    temp_op_attr,
    vgg,
)
from byoc.annex.testing.gradients import check_grad
from byoc.annex.testing.init import create_workload
from byoc.annex.testing.nat import add_nat_definitions, count, make_nat_expr, make_nat_value
from byoc.annex.testing.run_pass import count_ops, rand, run_infer_type, run_opt_pass
from byoc.annex.testing.temp_op_attr import TempOpAttr
from byoc.relay.transform import gradient

__all__ = [
    "TempOpAttr",
    "add_nat_definitions",
    "byoc",
    "check_grad",
    "count",
    "count_ops",
    "create_workload",
    "dcgan",
    "densenet",
    "dqn",
    "gradient",
    "inception_v3",
    "layers",
    "lstm",
    "make_nat_expr",
    "make_nat_value",
    "mlp",
    "mobilenet",
    "nat",
    "rand",
    "resnet",
    "resnet_3d",
    "run_infer_type",
    "run_opt_pass",
    "squeezenet",
    "synthetic",
    "temp_op_attr",
    "vgg",
]
