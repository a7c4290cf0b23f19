"""Kernels for processors: C's schedules, written as OpenCL C whose work-groups are the threads of a team."""
