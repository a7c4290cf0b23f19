"""The passes over functions: normal forms, inlining, lifting, partial evaluation."""
