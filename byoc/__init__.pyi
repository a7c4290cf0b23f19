"""The public names, for editors and type checkers, and for their lazy loading."""

from byoc import cli as cli
from byoc import codegen as codegen
from byoc import contract as contract
from byoc import contrib as contrib
from byoc import debug as debug
from byoc import driver as driver
from byoc import errors as errors
from byoc import ir as ir
from byoc import onnx_backend as onnx_backend
from byoc import partition as partition
from byoc import relay as relay
from byoc import runtime as runtime
from byoc import te as te
from byoc import testing as testing
from byoc.contract.backend import Backend as Backend
from byoc.contract.limits import Limits as Limits
from byoc.contract.registration import register_backend as register_backend
from byoc.debug.bisection import bisect as bisect
from byoc.debug.comparing import compare as compare
from byoc.driver.compiler.entry import compile as compile
from byoc.driver.compiler.export_c import export_c as export_c
from byoc.driver.compiler.partition_for import partition_for as partition_for
from byoc.driver.compiler.plan import plan as plan
from byoc.driver.measure_plan import measure as measure
from byoc.driver.models.lint import LintReport as LintReport
from byoc.driver.models.lint import lint as lint
from byoc.driver.models.opt import OptimizedModel as OptimizedModel
from byoc.driver.models.opt import opt as opt
from byoc.driver.pipeline import pipeline as pipeline
from byoc.driver.quantization import Calibration as Calibration
from byoc.ir.module import IRModule as IRModule
from byoc.partition.show.networks import to_networkx as to_networkx
from byoc.relay.frontend.onnx import import_onnx as import_onnx
from byoc.runtime.loading import load as load

__version__: str
