"""What tests of passes and networks are written with: networks, their parameters, passes over one expression.

Source: ``relay.testing``.
"""

from byoc.relay.testing import (
    byoc,
    dcgan,
    densenet,
    dqn,
    inception_v3,
    layers,
    lstm,
    mlp,
    mobilenet,
    resnet,
    resnet_3d,
    squeezenet,
    synthetic,
    temp_op_attr,
    vgg,
)
from byoc.relay.testing.init import create_workload
from byoc.relay.testing.run_pass import count_ops, rand, run_infer_type, run_opt_pass
from byoc.relay.testing.temp_op_attr import TempOpAttr

__all__ = [
    "TempOpAttr", "byoc", "count_ops", "create_workload", "dcgan", "densenet", "dqn", "inception_v3", "layers", "lstm",
    "mlp", "mobilenet", "rand", "resnet", "resnet_3d", "run_infer_type", "run_opt_pass", "squeezenet", "synthetic",
    "temp_op_attr", "vgg",
]
