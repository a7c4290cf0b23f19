"""The compiler as users call it: a model planned, compiled, exported as C."""
