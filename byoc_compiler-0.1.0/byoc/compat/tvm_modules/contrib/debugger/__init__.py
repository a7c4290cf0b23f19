"""Executors that look at each node. Source: ``tvm.contrib.debugger``."""
