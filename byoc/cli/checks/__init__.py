"""The commands that look for what is wrong in a backend: certificates, bisection, comparison."""
