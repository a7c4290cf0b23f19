"""The passes that move scales of channels into weights, forwards and backwards."""
