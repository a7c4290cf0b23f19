"""What the documentation site is made of besides text: the drawn map, the command line's reference, pictures."""
