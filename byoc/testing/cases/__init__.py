"""Where the cases of a certification come from: operators' samples and what is made of them, patterns, combinations."""
