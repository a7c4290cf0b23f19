"""The converters of single operators. Those of quantised models stand above."""
