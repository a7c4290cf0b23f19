"""oneDNN's library, called through its C interface: descriptors of memory, primitives, and where it is found.

Everything here is of version 3, whose interface and numbers stay the same from release to release. Threads may share
what this file makes, but for a :class:`Stream`. Source: ``dnnl.h``, ``dnnl_types.h``.
"""

from __future__ import annotations

import ctypes.util
import functools
import importlib.metadata
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cffi import FFI

from byoc.runtime.core.errors import DeviceError, UnavailableError
from byoc.runtime.core.fork import in_child
from byoc.runtime.core.processor import usable_processors

VARIABLE = "BYOC_ONEDNN_LIBRARY"  # the path of a libdnnl of one's own
PACKAGES = ("onednn-cpu-gomp", "onednn-cpu-iomp", "onednn-cpu-tbb")
ADVICE = f"pip install {PACKAGES[0]}, or name a libdnnl of version 3 in {VARIABLE}"
MAJOR = 3
OPENMP, SYCL = 2, 512  # runtimes; memory of the second is no plain memory
DTYPES = {"float16": 1, "bfloat16": 2, "float32": 3, "int32": 4, "int8": 5, "uint8": 6}
UNIMPLEMENTED = 3
STATUS = {1: "out of memory", 2: "invalid arguments", UNIMPLEMENTED: "unimplemented", 5: "failed while running"}
ANY = "any"  # the layout that a primitive likes best

_TYPES = "memory_desc memory engine stream primitive primitive_desc primitive_attr post_ops".split()
_DESC, _ATTR = "dnnl_memory_desc_t", "dnnl_primitive_attr_t"
_FORWARD = f"dnnl_primitive_desc_t *, dnnl_engine_t, int prop, int alg, {_DESC} src, "
_WINDOW = ", ".join(["dims"] * 4)
_DECLARATIONS = f"""
{"".join(f"typedef struct dnnl_{name} *dnnl_{name}_t;" for name in _TYPES)}
typedef int64_t dim;
typedef const int64_t *dims;
typedef struct {{ int arg; dnnl_memory_t memory; }} dnnl_exec_arg_t;
typedef struct {{ int major, minor, patch; const char *hash; unsigned cpu_runtime, gpu_runtime; }} dnnl_version_t;
const dnnl_version_t *dnnl_version(void);
void omp_set_num_threads(int);
int dnnl_engine_create(dnnl_engine_t *, int kind, size_t index);
int dnnl_stream_create(dnnl_stream_t *, dnnl_engine_t, unsigned flags);
int dnnl_stream_wait(dnnl_stream_t);
int dnnl_stream_destroy(dnnl_stream_t);
int dnnl_memory_desc_create_with_strides({_DESC} *, int ndims, dims sizes, int dtype, dims strides);
int dnnl_memory_desc_create_with_tag({_DESC} *, int ndims, dims sizes, int dtype, int tag);
int dnnl_memory_desc_create_submemory({_DESC} *, {_DESC} parent, dims sizes, dims offsets);
int dnnl_memory_desc_reshape({_DESC} *, {_DESC}, int ndims, dims sizes);
int dnnl_memory_desc_permute_axes({_DESC} *, {_DESC}, const int *permutation);
int dnnl_memory_desc_clone({_DESC} *, {_DESC});
int dnnl_memory_desc_destroy({_DESC});
int dnnl_memory_desc_equal({_DESC}, {_DESC});
size_t dnnl_memory_desc_get_size({_DESC});
int dnnl_memory_create(dnnl_memory_t *, {_DESC}, dnnl_engine_t, void *handle);
int dnnl_memory_set_data_handle(dnnl_memory_t, void *handle);
int dnnl_memory_destroy(dnnl_memory_t);
int dnnl_primitive_attr_create({_ATTR} *);
int dnnl_primitive_attr_destroy({_ATTR});
int dnnl_primitive_attr_set_scratchpad_mode({_ATTR}, int mode);
int dnnl_primitive_attr_set_scales_mask({_ATTR}, int argument, int mask);
int dnnl_primitive_attr_set_zero_points_mask({_ATTR}, int argument, int mask);
int dnnl_primitive_attr_set_post_ops({_ATTR}, dnnl_post_ops_t);
int dnnl_post_ops_create(dnnl_post_ops_t *);
int dnnl_post_ops_destroy(dnnl_post_ops_t);
int dnnl_post_ops_append_sum(dnnl_post_ops_t, float scale, int32_t zero_point, int dtype);
int dnnl_post_ops_append_eltwise(dnnl_post_ops_t, int alg, float alpha, float beta);
int dnnl_post_ops_append_binary(dnnl_post_ops_t, int alg, {_DESC});
int dnnl_primitive_desc_destroy(dnnl_primitive_desc_t);
int dnnl_primitive_desc_query(dnnl_primitive_desc_t, int what, int index, void *result);
{_DESC} dnnl_primitive_desc_query_md(dnnl_primitive_desc_t, int what, int index);
int dnnl_primitive_create(dnnl_primitive_t *, dnnl_primitive_desc_t);
int dnnl_primitive_execute(dnnl_primitive_t, dnnl_stream_t, int count, const dnnl_exec_arg_t *);
int dnnl_primitive_destroy(dnnl_primitive_t);
int dnnl_reorder_primitive_desc_create(
    dnnl_primitive_desc_t *, {_DESC} src, dnnl_engine_t, {_DESC} dst, dnnl_engine_t, {_ATTR});
int dnnl_concat_primitive_desc_create(
    dnnl_primitive_desc_t *, dnnl_engine_t, {_DESC} dst, int n, int axis, const {_DESC} *, {_ATTR});
int dnnl_binary_primitive_desc_create(
    dnnl_primitive_desc_t *, dnnl_engine_t, int alg, {_DESC}, {_DESC}, {_DESC} dst, {_ATTR});
int dnnl_convolution_forward_primitive_desc_create(
    {_FORWARD} {_DESC} weights, {_DESC} bias, {_DESC} dst, {_WINDOW}, {_ATTR});
int dnnl_deconvolution_forward_primitive_desc_create(
    {_FORWARD} {_DESC} weights, {_DESC} bias, {_DESC} dst, {_WINDOW}, {_ATTR});
int dnnl_eltwise_forward_primitive_desc_create({_FORWARD} {_DESC} dst, float alpha, float beta, {_ATTR});
int dnnl_prelu_forward_primitive_desc_create(
    dnnl_primitive_desc_t *, dnnl_engine_t, int prop, {_DESC} src, {_DESC} weights, {_DESC} dst, {_ATTR});
int dnnl_softmax_forward_primitive_desc_create({_FORWARD} {_DESC} dst, int axis, {_ATTR});
int dnnl_pooling_forward_primitive_desc_create({_FORWARD} {_DESC} dst, {_WINDOW}, dims after, {_ATTR});
int dnnl_resampling_forward_primitive_desc_create(
    dnnl_primitive_desc_t *, dnnl_engine_t, int prop, int alg, const float *, {_DESC} src, {_DESC} dst, {_ATTR});
int dnnl_lrn_forward_primitive_desc_create({_FORWARD} {_DESC} dst, dim size, float, float, float, {_ATTR});
int dnnl_batch_normalization_forward_primitive_desc_create(
    dnnl_primitive_desc_t *, dnnl_engine_t, int prop, {_DESC} src, {_DESC} dst, float epsilon, unsigned, {_ATTR});
int dnnl_layer_normalization_forward_primitive_desc_create(
    dnnl_primitive_desc_t *, dnnl_engine_t, int prop, {_DESC} src, {_DESC} dst, {_DESC}, float, unsigned, {_ATTR});
int dnnl_matmul_primitive_desc_create(
    dnnl_primitive_desc_t *, dnnl_engine_t, {_DESC} src, {_DESC} weights, {_DESC} bias, {_DESC} dst, {_ATTR});
int dnnl_reduction_primitive_desc_create(
    dnnl_primitive_desc_t *, dnnl_engine_t, int alg, {_DESC} src, {_DESC} dst, float p, float epsilon, {_ATTR});
"""
_TAG_ANY, _CPU, _IN_ORDER, _USER_SCRATCHPAD = 1, 1, 1, 1
_QUERY_NAME, _QUERY_SCRATCHPAD = 8, 0x88


class Unimplemented(DeviceError):
    """What was asked for is not in this library, or not for this processor."""


class Desc:
    """A descriptor: the sizes and dtype of a tensor, and the order in which its elements lie in memory."""

    def __init__(self, library: OnednnLibrary, pointer: Any, shape: Sequence[int], dtype: str):
        self.library, self.pointer = library, pointer
        self.shape, self.dtype = tuple(shape) or (1,), dtype  # oneDNN has no tensor without axes

    def _made(self, function: str, shape: Sequence[int], *args: object) -> Desc | None:
        """Another descriptor of the same memory; None where there is none."""
        place = self.library.ffi.new(f"{_DESC} *")
        if getattr(self.library.lib, function)(place, self.pointer, *args):
            return None
        return Desc(self.library, self.library.owned(place[0], _DESC), shape, self.dtype)

    def permuted(self, axes: Sequence[int]) -> Desc:
        """The same memory with axis ``axes[k]`` as axis *k*."""
        if list(axes) == list(range(len(axes))):
            return self
        places = [list(axes).index(k) for k in range(len(axes))]
        found = self._made("dnnl_memory_desc_permute_axes", [self.shape[a] for a in axes], places)
        assert found is not None, (self.shape, axes)
        return found

    def reshaped(self, shape: Sequence[int]) -> Desc | None:
        """The same memory under another shape; None where its elements lie in another order."""
        if tuple(shape) == self.shape:
            return self
        return self._made("dnnl_memory_desc_reshape", shape, len(shape), list(shape))

    def part(self, shape: Sequence[int], offsets: Sequence[int]) -> Desc | None:
        """The part of *shape* that begins at *offsets*; None where it begins inside of a block."""
        return self._made("dnnl_memory_desc_create_submemory", shape, list(shape), list(offsets))

    @property
    def nbytes(self) -> int:
        """Bytes of the memory, from the first element that the whole tensor has."""
        return int(self.library.lib.dnnl_memory_desc_get_size(self.pointer))

    @property
    def is_plain(self) -> bool:
        """Whether the elements lie in the order of the axes, the last one innermost, without gaps."""
        return self == self.library.desc(self.shape, self.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Desc) and bool(self.library.lib.dnnl_memory_desc_equal(self.pointer, other.pointer))

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))


class Attributes:
    """What a primitive does beside its own work: operations on its result, and scales of integers."""

    def __init__(self, library: OnednnLibrary):
        self.library = library
        self.pointer = library.new("dnnl_primitive_attr_t", library.lib.dnnl_primitive_attr_create)
        library.check(library.lib.dnnl_primitive_attr_set_scratchpad_mode(self.pointer, _USER_SCRATCHPAD), "scratchpad")
        self._operations = library.new("dnnl_post_ops_t", library.lib.dnnl_post_ops_create)

    def add_sum(self) -> None:
        """Add what lies where the result will lie."""
        self.library.check(self.library.lib.dnnl_post_ops_append_sum(self._operations, 1.0, 0, 0), "a sum")

    def add_eltwise(self, alg: int, alpha: float, beta: float) -> None:
        """A function of each element."""
        status = self.library.lib.dnnl_post_ops_append_eltwise(self._operations, alg, alpha, beta)
        self.library.check(status, "a function behind a product")

    def add_binary(self, alg: int, desc: Desc) -> None:
        """An operation with another tensor, which is given to the primitive when it runs."""
        status = self.library.lib.dnnl_post_ops_append_binary(self._operations, alg, desc.pointer)
        self.library.check(status, "an operation behind a product")

    def scale(self, argument: int, mask: int) -> None:
        """The integers of an *argument* have a scale: one, or with a *mask* one for each place along axes."""
        self.library.check(self.library.lib.dnnl_primitive_attr_set_scales_mask(self.pointer, argument, mask), "scales")

    def zero_point(self, argument: int) -> None:
        """The integers of an *argument* have a zero point."""
        status = self.library.lib.dnnl_primitive_attr_set_zero_points_mask(self.pointer, argument, 0)
        self.library.check(status, "zero points")

    def finished(self) -> Any:
        """The pointer, once all is said."""
        status = self.library.lib.dnnl_primitive_attr_set_post_ops(self.pointer, self._operations)
        self.library.check(status, "operations behind a product")
        return self.pointer


class Primitive:
    """Code for one operation on tensors of certain descriptors."""

    def __init__(self, library: OnednnLibrary, descriptor: Any, what: str):
        self.library, self._descriptor = library, descriptor
        self.pointer = library.new("dnnl_primitive_t", library.lib.dnnl_primitive_create, descriptor, what=what)
        self.scratchpad = self.asked(_QUERY_SCRATCHPAD, 0, (), "uint8")

    def asked(self, query: int, index: int, shape: Sequence[int], dtype: str) -> Desc:
        """The descriptor that it wants of an argument, whose shape and dtype the caller knows."""
        found = self.library.lib.dnnl_primitive_desc_query_md(self._descriptor, query, index)
        copy = self.library.new(_DESC, self.library.lib.dnnl_memory_desc_clone, found)
        return Desc(self.library, copy, shape, dtype)

    @property
    def name(self) -> str:
        """What oneDNN calls its implementation (``jit:avx2``, ``ref:any``)."""
        place = self.library.ffi.new("char **")
        self.library.check(
            self.library.lib.dnnl_primitive_desc_query(self._descriptor, _QUERY_NAME, 0, place), "a name"
        )
        return str(self.library.ffi.string(place[0]).decode())


class OnednnLibrary:
    """The library at *path*, and the processor as its engine. Raises OSError where there is none."""

    def __init__(self, path: str):
        self.path, self.ffi = path, FFI()
        self.ffi.cdef(_DECLARATIONS)
        self.lib: Any = self.ffi.dlopen(path)
        version = self.lib.dnnl_version()
        self.version = (version.major, version.minor, version.patch)
        self.runtime = int(version.cpu_runtime)
        self.engine: Any = None
        if self.version[0] == MAJOR and self.runtime != SYCL:
            self.engine = self.new("dnnl_engine_t", self.lib.dnnl_engine_create, _CPU, 0)
        self.threads = usable_processors()
        in_child(self._alone)

    def _alone(self) -> None:
        """OpenMP's threads are not in a forked child, which would wait for them for ever."""
        self.threads = 1

    def share_processors(self) -> None:
        """Have what this thread runs next use the processors of this process."""
        if self.runtime == OPENMP:
            self.lib.omp_set_num_threads(self.threads)  # found among what the library brings

    def check(self, status: int, what: str) -> None:
        """Raises Unimplemented or DeviceError unless *status* is that of success."""
        if status:
            problem = STATUS.get(status, f"status {status}")
            kind = Unimplemented if status == UNIMPLEMENTED else DeviceError
            raise kind(f"oneDNN {'.'.join(map(str, self.version))}: {what}: {problem}")

    def owned(self, pointer: Any, kind: str) -> Any:
        """*pointer*, destroyed when nobody has it."""
        destroy = getattr(self.lib, f"{kind.removesuffix('_t')}_destroy", None)
        return self.ffi.gc(pointer, destroy) if destroy is not None else pointer

    def new(self, kind: str, create: Any, *args: object, what: str = "") -> Any:
        """An object of *kind* that *create* makes. Raises as :meth:`check`."""
        place = self.ffi.new(f"{kind} *")
        self.check(create(place, *args), what or kind)
        return self.owned(place[0], kind)

    def desc(self, shape: Sequence[int], dtype: str, order: str = "") -> Desc:
        """The descriptor of a tensor whose elements lie in the order of its axes; with ``ANY``, as a primitive likes.

        A number is a tensor of one axis here.
        """
        sizes = list(shape) or [1]
        if order == ANY:
            create, last = self.lib.dnnl_memory_desc_create_with_tag, _TAG_ANY
            return Desc(self, self.new(_DESC, create, len(sizes), sizes, DTYPES[dtype], last), shape, dtype)
        strides = [1] * len(sizes)
        for k in range(len(sizes) - 2, -1, -1):
            strides[k] = strides[k + 1] * max(sizes[k + 1], 1)
        create = self.lib.dnnl_memory_desc_create_with_strides
        return Desc(self, self.new(_DESC, create, len(sizes), sizes, DTYPES[dtype], strides), shape, dtype)

    def primitive(self, kind: str, *args: object) -> Primitive:
        """The primitive *kind* (``convolution_forward``). Raises Unimplemented where the library has none for that."""
        create = getattr(self.lib, f"dnnl_{kind}_primitive_desc_create")
        plain = [a.pointer if isinstance(a, Desc) else self.ffi.NULL if a is None else a for a in args]
        return Primitive(self, self.new("dnnl_primitive_desc_t", create, *plain, what=kind), kind)

    def attributes(self) -> Attributes:
        """What a primitive does beside its own work: nothing yet."""
        return Attributes(self)

    def stream(self) -> Any:
        """A queue for one thread at a time."""
        return self.new("dnnl_stream_t", self.lib.dnnl_stream_create, self.engine, _IN_ORDER)


def _search() -> OnednnLibrary | str:
    """The library, else why there is none; it is asked for each call of a plan.

    What works is kept for each text of the user's variable. What was not there is looked for again, but for what the
    system's loader finds, which asks compilers in processes of their own.
    """
    named = os.environ.get(VARIABLE)
    if named in _KNOWN:
        return _KNOWN[named]
    found = _found(tuple([named] if named else _candidates()))
    if not isinstance(found, str):
        _KNOWN[named] = found
    return found


_KNOWN: dict[str | None, OnednnLibrary] = {}
_system_library = functools.cache(ctypes.util.find_library)


def _candidates() -> list[str]:
    """Where the library may be: files of installed packages, what the system's loader finds."""
    found = []
    for package in PACKAGES:
        try:
            files = importlib.metadata.files(package) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        found += [str(Path(str(file.locate())).resolve()) for file in files if file.name == f"libdnnl.so.{MAJOR}"]
    system = _system_library("dnnl")
    return [*found, *([system] if system else [])]


@functools.cache
def _found(candidates: tuple[str, ...]) -> OnednnLibrary | str:
    """The first of them that works, else why none does."""
    problem = "it is not installed"
    for path in candidates:
        try:
            library = OnednnLibrary(path)
        except (OSError, AttributeError) as error:  # cffi's for a function that a library does not have
            problem = f"{path}: {error}"
            continue
        if library.engine is not None:
            return library
        problem = f"{path} has version {'.'.join(map(str, library.version))}"
        problem += " over SYCL, whose memory is its own" if library.runtime == SYCL else f", expected {MAJOR}"
    return problem


def unavailable() -> str | None:
    """Why the library is not here, in one sentence; None where it is."""
    found = _search()
    return f"oneDNN is not here ({found}): {ADVICE}" if isinstance(found, str) else None


def library() -> OnednnLibrary:
    """The library. Raises UnavailableError where it is not here."""
    found = _search()
    if isinstance(found, str):
        raise UnavailableError(f"oneDNN is not here ({found}): {ADVICE}")
    return found
