"""What everything at run time is made of: errors, devices, arrays, signatures, JSON read strictly, limits, locks."""
