"""The JSON code generator: regions as graphs in Relay's JSON layout."""
