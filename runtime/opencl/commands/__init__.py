"""How the kernels of a call get into the queue: one by one, flushed every few, or recorded and handed over at once."""
