"""Conformance of devices: what ``byoc.runtime.DeviceAPI`` says of them, tried."""
