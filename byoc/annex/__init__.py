"""What only users of Relay's own names need; the compile path never imports it."""
