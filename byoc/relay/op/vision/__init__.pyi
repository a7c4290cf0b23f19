"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.relay.op.vision.multibox import multibox_prior as multibox_prior
from byoc.relay.op.vision.multibox import multibox_transform_loc as multibox_transform_loc
from byoc.relay.op.vision.nms import all_class_non_max_suppression as all_class_non_max_suppression
from byoc.relay.op.vision.nms import get_valid_counts as get_valid_counts
from byoc.relay.op.vision.nms import non_max_suppression as non_max_suppression
from byoc.relay.op.vision.nms import regular_non_max_suppression as regular_non_max_suppression
from byoc.relay.op.vision.rcnn import proposal as proposal
from byoc.relay.op.vision.rcnn import roi_align as roi_align
from byoc.relay.op.vision.rcnn import roi_pool as roi_pool
from byoc.relay.op.vision.yolo import yolo_reorg as yolo_reorg
