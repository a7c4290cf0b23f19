"""Normal forms and first-order programs: passes that Relay has and a model's road does not take."""
