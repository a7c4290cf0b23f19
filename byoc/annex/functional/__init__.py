"""Normal forms and first-order programs: passes that Relay has and the compile path does not use."""
