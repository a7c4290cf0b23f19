"""What stands below every other package: the version, and how modules and names of ours are found."""

__version__ = "0.1.0"
