"""C as a language: spellings and the helpers behind them, what rounds, expressions, and the dialects."""
