"""Devices behind one interface: their memory, streams and events; the host, an emulated one, and who opens others."""
