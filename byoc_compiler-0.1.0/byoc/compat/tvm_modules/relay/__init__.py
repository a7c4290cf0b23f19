"""What ``tvm.relay`` has beside the graph language: building, executors, tests' workloads."""
