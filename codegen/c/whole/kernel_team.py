"""A team of threads for one kernel at a time: the library by which tuning runs a symbol as the whole model would.

The entry of a symbol has no table of functions; ``run_kernel`` is a program whose table holds the address of the entry.
"""

from __future__ import annotations

from byoc.codegen.c.whole.natives import NATIVES
from byoc.codegen.c.whole.support import POOL, PREAMBLE

_RUN_KERNEL = """typedef int32_t (*Kernel)(void **, const int64_t *, uint8_t *, const Team *);

int32_t run_kernel(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals);
/* The kernel that is the first of the functions, by all threads of the team. */
int32_t run_kernel(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals) {
  return ((Kernel)externals->functions[0])(args, sizes, workspace, team);
}
"""


def kernel_team_source() -> str:
    """The C of ``pool_new``, ``pool_run``, ``pool_free`` and ``run_kernel``, the same for every kernel.

    A candidate is measured with the whole team, however busy the machine is.
    """
    return "\n".join([PREAMBLE, "#define ALONE 0", NATIVES, POOL, _RUN_KERNEL])
