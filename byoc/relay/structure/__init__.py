"""Whether two expressions or types are the same, and hashes of them: ``structural_equal``, ``structural_hash``."""
