"""Modules whose functions work behind the executor's back: at the last moment, or in a thread that takes its time."""

import queue
import threading
import time

import numpy as np

from byoc.runtime import MetadataModule, Module
from byoc.runtime.region.record import Region

FUNCTIONS = {
    "exp": lambda x: np.exp(np.minimum(x, 3)),
    "tanh": np.tanh,
    "abs": np.abs,
    "negative": np.negative,
    "add": np.add,
    "multiply": np.multiply,
    "both": lambda x: (np.sin(x), np.cos(x)),
}


def apply(name, arrays):
    """Fill the outputs behind the inputs of the function ``device.operation`` or ``operation``."""
    function = FUNCTIONS[operation_of(name)]
    count = function.nin if isinstance(function, np.ufunc) else 1
    results = function(*arrays[:count])
    results = results if isinstance(results, tuple) else (results,)
    for target, result in zip(arrays[count:], results, strict=True):
        target[...] = result


class Late:
    """A call that is made when it is waited for and not a moment before."""

    def __init__(self, name, arrays, after, log):
        self.name, self.arrays, self.after, self.log, self.is_done = name, arrays, after, log, False

    def wait(self):
        assert not self.is_done, "waited for twice"
        self.is_done = True
        for other in self.after:
            assert other.is_done
        apply(self.name, self.arrays)
        self.log.append(("end", self.name))


class Worked:
    """A call that a thread of the device makes, in the order of the starts, behind what it comes after."""

    def __init__(self, name, arrays, after, device):
        self.name, self.arrays, self.after, self.device = name, arrays, after, device
        self.finished, self.error = threading.Event(), None

    def work(self):
        try:
            for other in self.after:
                assert other.finished.wait(20)
            self.device.log.append(("begin", self.name))
            self.device.kernel(self.name)
            apply(self.name, self.arrays)
            self.device.log.append(("end", self.name))
        except BaseException as error:
            self.error = error
        self.finished.set()

    def wait(self):
        assert self.finished.wait(20), "the device does not answer"
        if self.error is not None:
            raise self.error


class Device:
    """A thread that makes calls one after the other; *kernel* is run in each."""

    def __init__(self, log, kernel=lambda name: None):
        self.log, self.kernel, self._queue = log, kernel, queue.Queue()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while (call := self._queue.get()) is not None:
            call.work()

    def start(self, name, arrays, after):
        call = Worked(name, arrays, after, self)
        self._queue.put(call)
        return call

    def end(self):
        self._queue.put(None)


def dawdling(seed, longest=0.003):
    """A kernel that takes a random time."""
    random = np.random.default_rng(seed)
    return lambda name: time.sleep(float(random.uniform(0, longest)))


class StartedModule(Module):
    """Functions by name; *start* ``(name, arrays, after) -> Pending``, or None for a module of the host."""

    type_key = "test_started"

    def __init__(self, symbols, start, log):
        super().__init__()
        self.symbols, self._start, self._log, self.can_start = tuple(symbols), start, log, start is not None

    def get_function(self, name, query_imports=False):
        return _Function(name, self._start, self._log) if name in self.symbols else None


class _Function:
    def __init__(self, name, start, log):
        self._name, self._log = name, log
        if start is not None:
            self.start = lambda arrays, after: (log.append(("start", name)), start(name, arrays, after))[1]

    def __call__(self, *arrays):
        apply(self._name, [a.numpy() for a in arrays])
        self._log.append(("call", self._name))


def operation_of(name):
    """What the function *name* computes: ``left.exp#3`` is ``exp``."""
    return name.split(".")[-1].split("#")[0]


def outputs_of(name):
    """How many outputs the function *name* has."""
    return 2 if operation_of(name) == "both" else 1


def tree(starts, nodes, log):
    """The library of *nodes*' functions: for each device, which stands before the point of their names, its start."""
    names = list(dict.fromkeys(function for function, _ in nodes))
    devices = {name: name.split(".")[0] for name in names if "." in name}
    root = MetadataModule({}, {}, {name: Region(device, (f"node_{name}",)) for name, device in devices.items()})
    for device, start in starts.items():
        root.import_module(StartedModule([n for n in names if devices.get(n) == device], start, log))
    root.import_module(StartedModule([n for n in names if n not in devices], None, log))
    return root


def graph_of(inputs, nodes, heads, shape=(4,)):
    """A graph in the executor's JSON: *nodes* are a function and the numbers of the values that it reads."""
    values = [(k, 0) for k in range(inputs)]
    rows, listed = list(range(inputs + 1)), [{"op": "null", "name": f"x{k}", "inputs": []} for k in range(inputs)]
    for function, reads in nodes:
        count = outputs_of(function)
        attrs = {"func_name": function, "dynamic": "0", **({"starts": "1"} if "." in function else {})}
        number = len(listed)
        sources = [[*values[v], 0] for v in reads]
        listed.append({"op": "tvm_op", "name": f"{function}_{number}", "attrs": attrs, "inputs": sources})
        values += [(number, k) for k in range(count)]
        rows.append(rows[-1] + count)
    return {
        "nodes": listed,
        "arg_nodes": list(range(inputs)),
        "heads": [[*values[h], 0] for h in heads],
        "node_row_ptr": rows,
        "attrs": {
            "shape": ["list_shape", [list(shape)] * len(values)],
            "dltype": ["list_str", ["float32"] * len(values)],
        },
    }


def reference(inputs, nodes, heads):
    """What the graph's outputs are."""
    values = [np.array(x) for x in inputs]
    for function, reads in nodes:
        outputs = [np.empty_like(values[0]) for _ in range(outputs_of(function))]
        apply(function, [*(values[r] for r in reads), *outputs])
        values += outputs
    return [values[h] for h in heads]
