"""What numpy kernels are made of: their table, axes and layouts, windows, shapes, rounding."""
