"""Which device computes what, by ``on_device`` annotations."""
