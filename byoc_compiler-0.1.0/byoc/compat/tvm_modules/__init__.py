"""Thin modules for what TVM's package has and byoc has no home for, each at the path that it has in TVM.

``root`` is the package ``tvm`` itself. Nothing here works without the objects of byoc that it hands on.
"""
