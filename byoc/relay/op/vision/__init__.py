"""Operators of object detection: the names of ``relay.vision``. None has a tensor expression: they run on numpy."""

from byoc.relay.op.vision.multibox import multibox_prior, multibox_transform_loc
from byoc.relay.op.vision.nms import (
    all_class_non_max_suppression,
    get_valid_counts,
    non_max_suppression,
    regular_non_max_suppression,
)
from byoc.relay.op.vision.rcnn import proposal, roi_align, roi_pool
from byoc.relay.op.vision.yolo import yolo_reorg

__all__ = [
    "all_class_non_max_suppression",
    "get_valid_counts",
    "multibox_prior",
    "multibox_transform_loc",
    "non_max_suppression",
    "proposal",
    "regular_non_max_suppression",
    "roi_align",
    "roi_pool",
    "yolo_reorg",
]
