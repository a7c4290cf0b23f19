"""What converters make of axes, bounds, lengths and scales that are known only when the model runs."""
