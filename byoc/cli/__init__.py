"""The command line: ``byoc compile | run | inspect | targets | doctor``."""
