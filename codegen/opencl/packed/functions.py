"""What kernels of packed products call: copies of whole tiles, and the products of a step.

A tile goes to local memory by one instruction of one work-item, which nobody's registers and no address but its first
take part in (``cp.async.bulk``); it reports to a barrier in local memory, which work-items ask. What it brings is where
``wgmma`` sees it, without the fence that waits for whatever else is on its way. The left operand is in registers, so
that local memory is read for the right one alone. Source: PTX ISA 8.0, ``cp.async.bulk``, ``mbarrier``, ``wgmma``.
"""

from __future__ import annotations

from byoc.codegen.opencl.packed.layout import BLOCK, CHUNKS, INSTRUCTIONS, WORDS
from byoc.codegen.opencl.products.matrix_format import plain_product
from byoc.codegen.opencl.products.warpgroup import STEP_BYTES, lines_descriptor, warpgroup_instruction
from byoc.runtime.opencl.drivers.newer_ptx import MACRO, MARK

SUMS = BLOCK // 2  # of a work-item


def _tile_functions(units: str) -> str:
    """How a work-item has a tile copied, and all wait for it."""
    return f"""\
#ifdef {MACRO}
static inline void begin_tiles(__local ulong *arrived) {{
  asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"((uint)(size_t)arrived) : "memory");
}}

static inline void copy_tile(__local uint *to, __global const uint *from, uint bytes, __local ulong *arrived) {{
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
               :: "r"((uint)(size_t)arrived), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"((uint)(size_t)to), "l"((ulong)from), "r"(bytes), "r"((uint)(size_t)arrived) : "memory");
}}

static inline void wait_for_tile(__local ulong *arrived, uint phase) {{
  asm volatile("{{\\n"
               ".reg .pred p;\\n"
               "again:\\n"
               "mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\\n"
               "@p bra there;\\n"
               "bra again;\\n"
               "there:\\n"
               "}}" :: "r"((uint)(size_t)arrived), "r"(phase) : "memory");
}}
#endif
"""


def _step_functions(name: str) -> str:
    """The products of a step in the format *name*, and the left operand's registers for it."""
    registers = ", ".join(f"%{k}" for k in range(SUMS))
    code = ["{", "wgmma.fence.sync.aligned;", ".reg .pred p;", "setp.eq.u32 p, 0, 0;"]
    own = 4 * INSTRUCTIONS
    for k in range(INSTRUCTIONS):
        left = ", ".join(f"%{SUMS + 4 * k + r}" for r in range(4))
        code.append(f".reg .b64 b{k}; add.u64 b{k}, %{SUMS + own}, {k * STEP_BYTES >> 4};")
        code.append(warpgroup_instruction(name, BLOCK, f"{{{registers}}}, {{{left}}}, b{k}, p", left_in_local=False))
    code += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;", "}"]
    text = "\n".join(f'      "{MARK}{c}\\n"' for c in code)
    outputs = ", ".join(f'"+f"(sums[{k}])' for k in range(SUMS))
    inputs = ", ".join(f'"r"(left[{k}])' for k in range(own))
    loads = "\n".join(
        f"""\
  asm volatile("ld.global.nc.v4.u32 {{%0, %1, %2, %3}}, [%4];" : "=r"(left[{4 * k}]), "=r"(left[{4 * k + 1}]), \
"=r"(left[{4 * k + 2}]), "=r"(left[{4 * k + 3}]) : "l"((ulong)(from + {k * 128})));"""
        for k in range(INSTRUCTIONS)
    )
    return f"""\
#ifdef {MACRO}
static inline ulong packed_lines(__local const uint *first) {{
  return {lines_descriptor("first", 4 * WORDS)};
}}

static inline void load_packed(uint *left, __global const uint *from) {{
{loads}
}}

static inline void multiply_packed_{name}(float *sums, const uint *left, ulong lines) {{
  asm volatile(
{text}
      : {outputs}
      : {inputs}, "l"(lines)
      : "memory");
}}
#endif
"""


def _plain_functions(name: str) -> str:
    """The sum of one row and one column for a step, where units are emulated."""
    return f"""\
static inline float dot_packed_{name}(float sum, __global const uint *left, __local const uint *right, int turn) {{
  for (int k = 0; k < {WORDS}; ++k) {{
    const uint a = left[(k / 8 * 32 + k % 4) * 4 + k % 8 / 4 * 2];
    const uint b = right[(k / {WORDS // CHUNKS} ^ turn) * 4 + k % 4];
    sum += {plain_product(name)};
  }}
  return sum;
}}
"""


PACKED_SUPPORT = {  # helpers of kernels, by their names
    "packed_tiles": _tile_functions,
    "packed_step": _step_functions,
    "packed_plain": _plain_functions,
}
