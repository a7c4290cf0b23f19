"""What passes are made of: their context, what they say of themselves, what holds between them."""
