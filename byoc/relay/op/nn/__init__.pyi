"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.relay.op.nn.activation import batch_flatten as batch_flatten
from byoc.relay.op.nn.activation import bias_add as bias_add
from byoc.relay.op.nn.activation import dropout as dropout
from byoc.relay.op.nn.activation import dropout_raw as dropout_raw
from byoc.relay.op.nn.activation import leaky_relu as leaky_relu
from byoc.relay.op.nn.activation import log_softmax as log_softmax
from byoc.relay.op.nn.activation import prelu as prelu
from byoc.relay.op.nn.activation import relu as relu
from byoc.relay.op.nn.activation import softmax as softmax
from byoc.relay.op.nn.adaptive_pool import adaptive_avg_pool1d as adaptive_avg_pool1d
from byoc.relay.op.nn.adaptive_pool import adaptive_avg_pool2d as adaptive_avg_pool2d
from byoc.relay.op.nn.adaptive_pool import adaptive_avg_pool3d as adaptive_avg_pool3d
from byoc.relay.op.nn.adaptive_pool import adaptive_max_pool1d as adaptive_max_pool1d
from byoc.relay.op.nn.adaptive_pool import adaptive_max_pool2d as adaptive_max_pool2d
from byoc.relay.op.nn.adaptive_pool import adaptive_max_pool3d as adaptive_max_pool3d
from byoc.relay.op.nn.adaptive_pool import global_avg_pool1d as global_avg_pool1d
from byoc.relay.op.nn.adaptive_pool import global_avg_pool2d as global_avg_pool2d
from byoc.relay.op.nn.adaptive_pool import global_avg_pool3d as global_avg_pool3d
from byoc.relay.op.nn.adaptive_pool import global_max_pool1d as global_max_pool1d
from byoc.relay.op.nn.adaptive_pool import global_max_pool2d as global_max_pool2d
from byoc.relay.op.nn.adaptive_pool import global_max_pool3d as global_max_pool3d
from byoc.relay.op.nn.batch_blocks import batch_to_space_nd as batch_to_space_nd
from byoc.relay.op.nn.batch_blocks import space_to_batch_nd as space_to_batch_nd
from byoc.relay.op.nn.bit_serial import bitpack as bitpack
from byoc.relay.op.nn.bit_serial import bitserial_conv2d as bitserial_conv2d
from byoc.relay.op.nn.bit_serial import bitserial_dense as bitserial_dense
from byoc.relay.op.nn.convolution.backward import conv2d_backward_weight as conv2d_backward_weight
from byoc.relay.op.nn.convolution.contrib import (
    contrib_conv2d_gemm_without_weight_transform as contrib_conv2d_gemm_without_weight_transform,
)
from byoc.relay.op.nn.convolution.contrib import contrib_conv2d_nchwc as contrib_conv2d_nchwc
from byoc.relay.op.nn.convolution.contrib import (
    contrib_conv2d_winograd_without_weight_transform as contrib_conv2d_winograd_without_weight_transform,
)
from byoc.relay.op.nn.convolution.contrib import (
    contrib_conv3d_winograd_without_weight_transform as contrib_conv3d_winograd_without_weight_transform,
)
from byoc.relay.op.nn.convolution.contrib import contrib_depthwise_conv2d_nchwc as contrib_depthwise_conv2d_nchwc
from byoc.relay.op.nn.convolution.conv import conv1d as conv1d
from byoc.relay.op.nn.convolution.conv import conv2d as conv2d
from byoc.relay.op.nn.convolution.conv import conv3d as conv3d
from byoc.relay.op.nn.convolution.correlation import correlation as correlation
from byoc.relay.op.nn.convolution.deformable import DeformableColumnsAttrs as DeformableColumnsAttrs
from byoc.relay.op.nn.convolution.deformable import deformable_columns as deformable_columns
from byoc.relay.op.nn.convolution.deformable import deformable_columns_of as deformable_columns_of
from byoc.relay.op.nn.convolution.deformable import deformable_conv2d as deformable_conv2d
from byoc.relay.op.nn.convolution.dilate import dilate as dilate
from byoc.relay.op.nn.convolution.transpose import conv1d_transpose as conv1d_transpose
from byoc.relay.op.nn.convolution.transpose import conv2d_transpose as conv2d_transpose
from byoc.relay.op.nn.convolution.transpose import conv3d_transpose as conv3d_transpose
from byoc.relay.op.nn.convolution.weight_transforms import (
    contrib_conv2d_gemm_weight_transform as contrib_conv2d_gemm_weight_transform,
)
from byoc.relay.op.nn.convolution.weight_transforms import (
    contrib_conv2d_winograd_nnpack_weight_transform as contrib_conv2d_winograd_nnpack_weight_transform,
)
from byoc.relay.op.nn.convolution.weight_transforms import (
    contrib_conv2d_winograd_weight_transform as contrib_conv2d_winograd_weight_transform,
)
from byoc.relay.op.nn.convolution.weight_transforms import (
    contrib_conv3d_winograd_weight_transform as contrib_conv3d_winograd_weight_transform,
)
from byoc.relay.op.nn.dense import batch_matmul as batch_matmul
from byoc.relay.op.nn.dense import dense as dense
from byoc.relay.op.nn.dense import matmul as matmul
from byoc.relay.op.nn.dense_pack import contrib_dense_pack as contrib_dense_pack
from byoc.relay.op.nn.fast_softmax import fast_softmax as fast_softmax
from byoc.relay.op.nn.fifo_buffer import fifo_buffer as fifo_buffer
from byoc.relay.op.nn.loss import cross_entropy as cross_entropy
from byoc.relay.op.nn.loss import cross_entropy_with_logits as cross_entropy_with_logits
from byoc.relay.op.nn.loss import nll_loss as nll_loss
from byoc.relay.op.nn.norm import batch_norm as batch_norm
from byoc.relay.op.nn.norm import group_norm as group_norm
from byoc.relay.op.nn.norm import instance_norm as instance_norm
from byoc.relay.op.nn.norm import l2_normalize as l2_normalize
from byoc.relay.op.nn.norm import layer_norm as layer_norm
from byoc.relay.op.nn.norm import lrn as lrn
from byoc.relay.op.nn.pad import depth_to_space as depth_to_space
from byoc.relay.op.nn.pad import mirror_pad as mirror_pad
from byoc.relay.op.nn.pad import pad as pad
from byoc.relay.op.nn.pad import space_to_depth as space_to_depth
from byoc.relay.op.nn.pool import avg_pool1d as avg_pool1d
from byoc.relay.op.nn.pool import avg_pool2d as avg_pool2d
from byoc.relay.op.nn.pool import avg_pool3d as avg_pool3d
from byoc.relay.op.nn.pool import max_pool1d as max_pool1d
from byoc.relay.op.nn.pool import max_pool2d as max_pool2d
from byoc.relay.op.nn.pool import max_pool3d as max_pool3d
from byoc.relay.op.nn.pool_gradient import avg_pool2d_grad as avg_pool2d_grad
from byoc.relay.op.nn.pool_gradient import max_pool2d_grad as max_pool2d_grad
from byoc.relay.op.nn.recurrent import gru_sequence as gru_sequence
from byoc.relay.op.nn.recurrent import lstm_sequence as lstm_sequence
from byoc.relay.op.nn.recurrent import rnn_sequence as rnn_sequence
from byoc.relay.op.nn.sparse import sparse_add as sparse_add
from byoc.relay.op.nn.sparse import sparse_dense as sparse_dense
from byoc.relay.op.nn.sparse import sparse_transpose as sparse_transpose
from byoc.relay.op.nn.upsampling import upsampling as upsampling
from byoc.relay.op.nn.upsampling import upsampling3d as upsampling3d
