"""What the code base is measured by (``make health``): each module takes one measure of the code as it stands."""
