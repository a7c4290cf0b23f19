"""What only users of Relay's own names need; a model's road never imports it."""
