"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.relay.op.image.decode import decode as decode
from byoc.relay.op.image.dilation import dilation2d as dilation2d
from byoc.relay.op.image.resample import resample as resample
from byoc.relay.op.image.resize import resize1d as resize1d
from byoc.relay.op.image.resize import resize2d as resize2d
from byoc.relay.op.image.resize import resize3d as resize3d
from byoc.relay.op.image.sampling import affine_grid as affine_grid
from byoc.relay.op.image.sampling import crop_and_resize as crop_and_resize
from byoc.relay.op.image.sampling import grid_sample as grid_sample
