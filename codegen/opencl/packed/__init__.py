"""Large products of matrix units over operands that memory has packed as the units take them."""
