"""Convolutions with few multiplications: Winograd's F(m x m, 3 x 3)."""
