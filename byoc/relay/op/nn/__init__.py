"""Neural network operators: the names of ``relay.nn``."""

from byoc.relay.op.nn.activation import (
    batch_flatten,
    bias_add,
    dropout,
    dropout_raw,
    leaky_relu,
    log_softmax,
    prelu,
    relu,
    softmax,
)
from byoc.relay.op.nn.adaptive_pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    global_avg_pool1d,
    global_avg_pool2d,
    global_avg_pool3d,
    global_max_pool1d,
    global_max_pool2d,
    global_max_pool3d,
)
from byoc.relay.op.nn.batch_blocks import batch_to_space_nd, space_to_batch_nd
from byoc.relay.op.nn.bit_serial import bitpack, bitserial_conv2d, bitserial_dense
from byoc.relay.op.nn.convolution.backward import conv2d_backward_weight
from byoc.relay.op.nn.convolution.contrib import (
    contrib_conv2d_gemm_without_weight_transform,
    contrib_conv2d_nchwc,
    contrib_conv2d_winograd_without_weight_transform,
    contrib_conv3d_winograd_without_weight_transform,
    contrib_depthwise_conv2d_nchwc,
)
from byoc.relay.op.nn.convolution.conv import conv1d, conv2d, conv3d
from byoc.relay.op.nn.convolution.correlation import correlation
from byoc.relay.op.nn.convolution.deformable import deformable_conv2d
from byoc.relay.op.nn.convolution.dilate import dilate
from byoc.relay.op.nn.convolution.transpose import conv1d_transpose, conv2d_transpose, conv3d_transpose
from byoc.relay.op.nn.convolution.weight_transforms import (
    contrib_conv2d_gemm_weight_transform,
    contrib_conv2d_winograd_nnpack_weight_transform,
    contrib_conv2d_winograd_weight_transform,
    contrib_conv3d_winograd_weight_transform,
)
from byoc.relay.op.nn.dense import batch_matmul, dense, matmul
from byoc.relay.op.nn.dense_pack import contrib_dense_pack
from byoc.relay.op.nn.fast_softmax import fast_softmax
from byoc.relay.op.nn.fifo_buffer import fifo_buffer
from byoc.relay.op.nn.loss import cross_entropy, cross_entropy_with_logits, nll_loss
from byoc.relay.op.nn.norm import batch_norm, group_norm, instance_norm, l2_normalize, layer_norm, lrn
from byoc.relay.op.nn.pad import depth_to_space, mirror_pad, pad, space_to_depth
from byoc.relay.op.nn.pool import avg_pool1d, avg_pool2d, avg_pool3d, max_pool1d, max_pool2d, max_pool3d
from byoc.relay.op.nn.pool_gradient import avg_pool2d_grad, max_pool2d_grad
from byoc.relay.op.nn.recurrent import gru_sequence, lstm_sequence, rnn_sequence
from byoc.relay.op.nn.sparse import sparse_add, sparse_dense, sparse_transpose
from byoc.relay.op.nn.upsampling import upsampling, upsampling3d

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool2d_grad",
    "avg_pool3d",
    "batch_flatten",
    "batch_matmul",
    "batch_norm",
    "batch_to_space_nd",
    "bias_add",
    "bitpack",
    "bitserial_conv2d",
    "bitserial_dense",
    "contrib_conv2d_gemm_weight_transform",
    "contrib_conv2d_gemm_without_weight_transform",
    "contrib_conv2d_nchwc",
    "contrib_conv2d_winograd_nnpack_weight_transform",
    "contrib_conv2d_winograd_weight_transform",
    "contrib_conv2d_winograd_without_weight_transform",
    "contrib_conv3d_winograd_weight_transform",
    "contrib_conv3d_winograd_without_weight_transform",
    "contrib_dense_pack",
    "contrib_depthwise_conv2d_nchwc",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_backward_weight",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "correlation",
    "cross_entropy",
    "cross_entropy_with_logits",
    "deformable_conv2d",
    "dense",
    "depth_to_space",
    "dilate",
    "dropout",
    "dropout_raw",
    "fast_softmax",
    "fifo_buffer",
    "global_avg_pool1d",
    "global_avg_pool2d",
    "global_avg_pool3d",
    "global_max_pool1d",
    "global_max_pool2d",
    "global_max_pool3d",
    "group_norm",
    "gru_sequence",
    "instance_norm",
    "l2_normalize",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "lrn",
    "lstm_sequence",
    "matmul",
    "max_pool1d",
    "max_pool2d",
    "max_pool2d_grad",
    "max_pool3d",
    "mirror_pad",
    "nll_loss",
    "pad",
    "prelu",
    "relu",
    "rnn_sequence",
    "softmax",
    "space_to_batch_nd",
    "space_to_depth",
    "sparse_add",
    "sparse_dense",
    "sparse_transpose",
    "upsampling",
    "upsampling3d",
]
