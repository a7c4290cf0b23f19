"""Where every expression of a planned function is, read off its annotations from the outside in.

Requires PlanDevices. A function's result, parameters and what a fixed ``on_device`` encloses say where they are; a
variable is where it was bound; all else is where what encloses it is. Source: Relay's ``RecoverVirtualDeviceMap``
and ``LexicalOnDeviceMixin``.
"""

from __future__ import annotations

from byoc.annex.devices.analysis import open_children
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.registry import register_func
from byoc.ir.virtual_device import UNCONSTRAINED, VirtualDevice
from byoc.relay.expr import Call, Function, Let, Var
from byoc.relay.op.device_placement import is_device_copy, is_on_device

_Visit = tuple[RelayExpr, VirtualDevice]


def recover_virtual_device_map(mod: IRModule, expr: RelayExpr) -> dict[RelayExpr, VirtualDevice]:
    """The virtual device of each expression in *expr*; operators and constructors are on none."""
    found: dict[RelayExpr, VirtualDevice] = {}
    bound: dict[RelayExpr, VirtualDevice] = {}
    pending: list[_Visit] = [(expr, UNCONSTRAINED)]
    while pending:
        node, around = pending.pop()
        if node in found or isinstance(node, (Op, Constructor)):
            continue
        found[node] = here = _device_of(mod, node, around, bound)
        if isinstance(node, Function):
            bound.update({param: param.virtual_device_ for param in node.params})
        elif isinstance(node, Let):
            bound[node.variable] = _device_of(mod, node.value, here, bound)
        pending += reversed([(part, _around(node, here)) for part in open_children(node)])
    return found


def _device_of(
    mod: IRModule, node: RelayExpr, around: VirtualDevice, bound: dict[RelayExpr, VirtualDevice]
) -> VirtualDevice:
    """Where *node* is, which stands in something that is on *around*."""
    if isinstance(node, GlobalVar):
        function = mod[node] if node in mod else None
        return function.virtual_device_ if isinstance(function, Function) else UNCONSTRAINED
    if isinstance(node, Function):
        return node.virtual_device_
    if isinstance(node, Var):
        return bound.get(node, around)
    if is_on_device(node) and node.attrs.constrain_result:
        result: VirtualDevice = node.attrs.virtual_device
        return result
    if is_device_copy(node):
        result = node.attrs.dst_virtual_device
        return result
    return around


def _around(node: RelayExpr, here: VirtualDevice) -> VirtualDevice:
    """Where the parts of *node* are unless they say otherwise."""
    if isinstance(node, Call) and is_device_copy(node):
        result: VirtualDevice = node.attrs.src_virtual_device
        return result
    if isinstance(node, Call) and is_on_device(node) and node.attrs.constrain_body:
        result = node.attrs.virtual_device
        return result
    return here


register_func("relay.transform.RecoverVirtualDeviceMap", recover_virtual_device_map)
