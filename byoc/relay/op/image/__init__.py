"""Image operators: the names of ``relay.image``."""

from byoc.relay.op.image.dilation import dilation2d
from byoc.relay.op.image.resample import resample
from byoc.relay.op.image.resize import resize1d, resize2d, resize3d
from byoc.relay.op.image.sampling import affine_grid, crop_and_resize, grid_sample

__all__ = [
    "affine_grid",
    "crop_and_resize",
    "dilation2d",
    "grid_sample",
    "resample",
    "resize1d",
    "resize2d",
    "resize3d",
]
