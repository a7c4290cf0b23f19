"""What tests of microcontrollers share. Source: ``tvm.micro.testing``."""
