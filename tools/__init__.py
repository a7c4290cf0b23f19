"""Tools for who works on byoc; nothing here is installed."""
