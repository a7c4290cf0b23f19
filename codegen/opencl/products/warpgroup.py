"""The instruction by which four warps multiply: ``wgmma`` of NVIDIA's compute capability 9.0.

Sixteen rows of each warp by all columns of the tile are summed in the registers that instructions of one warp have for
them; both operands are lines of terms in local memory, of 64 or 128 bytes, whose chunks are exchanged as the
instruction knows it (``MatrixTile.turned``). Numbers of tf32 are cut off by it, not rounded. Source: PTX ISA 8.0,
``wgmma.mma_async``, its matrix descriptor and its 64-byte and 128-byte swizzles.
"""

from __future__ import annotations

from byoc.codegen.opencl.products.matrix_tile import MatrixTile
from byoc.runtime.opencl.drivers.newer_ptx import MACRO, MARK

WARPGROUP = 4  # warps
STEP_BYTES = 32  # of a lane, that one instruction takes
_EXCHANGED = {64: 2, 128: 1}  # how a descriptor names the exchange of a line's chunks, by the bytes of the line
_INSTRUCTIONS = {"tf32": "k8.f32.tf32.tf32", "float16": "k16.f32.f16.f16", "bfloat16": "k16.f32.bf16.bf16"}


def warpgroup_instruction(name: str, columns: int, operands: str, left_in_local: bool = True) -> str:
    """The instruction for so many *columns* of the format *name*; the left operand is in local memory, or registers."""
    turned = "" if name == "tf32" else ", 0, 0" if left_in_local else ", 0"  # only numbers of 16 bits may be
    return f"wgmma.mma_async.sync.aligned.m64n{columns}{_INSTRUCTIONS[name]} {operands}, 1, 1{turned};"


def lines_descriptor(first: str, line_bytes: int) -> str:
    """The text of what tells the instruction where lines of so many bytes are, from the local pointer *first* on."""
    rest = _EXCHANGED[line_bytes] << 62 | 8 * line_bytes >> 4 << 32
    return f"((ulong)(uint)(size_t){first} & 0x3ffff) >> 4 | 1UL << 16 | {hex(rest)}UL"


def warpgroup_call(tile: MatrixTile) -> str:
    """What the functions are called by which a step of *tile* is multiplied."""
    return f"{tile.format.name}_{tile.columns}x{tile.words}"


def _functions(call: str) -> str:
    """Them: where a descriptor of lines is made, and what adds a step's products to a work-item's *sums*."""
    name, sizes = call.rsplit("_", 1)
    columns, words = (int(n) for n in sizes.split("x"))
    sums, line = columns // 2, 4 * words
    registers = ", ".join(f"%{k}" for k in range(sums))
    code = ["{", "wgmma.fence.sync.aligned;", ".reg .pred p;", "setp.eq.u32 p, 0, 0;"]
    for k in range(line // STEP_BYTES):
        further = k * STEP_BYTES >> 4
        code += [f".reg .b64 {own}{k}; add.u64 {own}{k}, %{n}, {further};" for own, n in (("a", sums), ("b", sums + 1))]
        code.append(warpgroup_instruction(name, columns, f"{{{registers}}}, a{k}, b{k}, p"))
    code += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;", "}"]
    text = "\n".join(f'      "{MARK}{c}\\n"' for c in code)
    outputs = ", ".join(f'"+f"(sums[{k}])' for k in range(sums))
    return f"""\
#ifdef {MACRO}
static inline ulong lines_{call}(__local const uint *first) {{
  return {lines_descriptor("first", line)};
}}

static inline void multiply_{call}(float *sums, ulong a, ulong b) {{
  asm volatile(
{text}
      : {outputs}
      : "l"(a), "l"(b)
      : "memory");
}}
#endif
"""


def _see_stored(units: str) -> str:
    """What work-items call so that instructions of a warpgroup see what they brought to local memory."""
    return f"""\
static inline void see_stored(void) {{
#ifdef {MACRO}
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}}
"""


WARPGROUP_SUPPORT = {"matrix_warpgroup": _functions, "see_stored": _see_stored}  # helpers of kernels, by their names
