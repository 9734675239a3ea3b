"""The operators, a family a file; importing this registers them.

One line each, in an order that does not matter: pages find one another by name.
"""

from maquette.backends import numpy as _numpy  # noqa: F401  # data on cpu
from maquette.backends import cupy as _cupy  # noqa: F401  # data on cuda
from maquette.backends import recorded as _recorded  # noqa: F401  # passes that come often
from maquette.tensor import aliasing as _aliasing  # noqa: F401  # views and writes
from maquette.autograd import record as _record  # noqa: F401  # recording

# Families:
from maquette.aten.elementwise import arithmetic as _arithmetic  # noqa: F401
from maquette.aten.elementwise import division as _division  # noqa: F401
from maquette.aten.elementwise import complex_parts as _complex_parts  # noqa: F401
from maquette.aten.elementwise import conjugate as _conjugate  # noqa: F401
from maquette.aten.nn.activation import activations_exponential as _activations_exponential  # noqa: F401
from maquette.aten.nn.activation import activations_smooth as _activations_smooth  # noqa: F401
from maquette.aten.nn.activation import activations as _activations  # noqa: F401
from maquette.aten.elementwise import ternary as _ternary  # noqa: F401
from maquette.aten.elementwise import minimum_maximum as _minimum_maximum  # noqa: F401
from maquette.aten.elementwise import powers as _powers  # noqa: F401
from maquette.aten.elementwise import rounding as _rounding  # noqa: F401
from maquette.aten.elementwise import transcendental as _transcendental  # noqa: F401
from maquette.aten.elementwise import where as _where  # noqa: F401
from maquette.aten.elementwise import comparison as _comparison  # noqa: F401
from maquette.aten.reduction import sums as _sums  # noqa: F401
from maquette.aten.reduction import min_max as _min_max  # noqa: F401
from maquette.aten.linalg.products import fused_products as _fused_products  # noqa: F401
from maquette.aten.linalg.products import matrix_products as _matrix_products  # noqa: F401
from maquette.aten.linalg.products import outer_products as _outer_products  # noqa: F401
from maquette.aten.linalg.products import matmul as _matmul  # noqa: F401
from maquette.aten.linalg.products import einsum as _einsum  # noqa: F401
from maquette.aten.view import views as _views  # noqa: F401
from maquette.aten.view import splitting as _splitting  # noqa: F401
from maquette.aten.view import reshaping as _reshaping  # noqa: F401
from maquette.aten.view import copies as _copies  # noqa: F401
from maquette.aten.view import joining as _joining  # noqa: F401
from maquette.aten.factory import factories as _factories  # noqa: F401
from maquette.aten.nn.embedding import embedding as _embedding  # noqa: F401
from maquette.aten.nn.activation import softmax as _softmax  # noqa: F401
from maquette.aten.nn.activation import masked_softmax as _masked_softmax  # noqa: F401
from maquette.aten.nn.norm import layer_norm as _layer_norm  # noqa: F401
from maquette.aten.nn.norm import group_norm as _group_norm  # noqa: F401
from maquette.aten.nn.norm import batch_norm as _batch_norm  # noqa: F401
from maquette.aten.nn.norm import batch_norm_functions as _batch_norm_functions  # noqa: F401
from maquette.aten.nn.attention import attention_by_position as _attention_by_position  # noqa: F401
from maquette.aten.nn.attention import flash_by_position as _flash_by_position  # noqa: F401
from maquette.aten.nn.attention import fused_attention as _fused_attention  # noqa: F401
from maquette.aten.nn.attention import attention as _attention  # noqa: F401
from maquette.aten.nn.attention import native_attention as _native_attention  # noqa: F401
from maquette.aten.reduction import variance as _variance  # noqa: F401
from maquette.aten.reduction import vector_norms as _vector_norms  # noqa: F401
from maquette.aten.reduction import cumulative as _cumulative  # noqa: F401
from maquette.aten.nn.conv import convolution as _convolution  # noqa: F401
from maquette.aten.nn.conv import convolution_forms as _convolution_forms  # noqa: F401
from maquette.aten.nn.conv import double_backward as _double_backward  # noqa: F401
from maquette.aten.nn.loss import elementwise_losses as _elementwise_losses  # noqa: F401
from maquette.aten.nn.loss import binary_losses as _binary_losses  # noqa: F401
from maquette.aten.nn.loss import loss_composites as _loss_composites  # noqa: F401
from maquette.aten.factory import ranges as _ranges  # noqa: F401
from maquette.aten.view import rearranging as _rearranging  # noqa: F401
from maquette.aten.view import view_copies as _view_copies  # noqa: F401
from maquette.aten.view import inplace_views as _inplace_views  # noqa: F401
from maquette.aten.view import view_scatters as _view_scatters  # noqa: F401
from maquette.aten.view import resizing as _resizing  # noqa: F401
from maquette.aten.view import lazy_clone as _lazy_clone  # noqa: F401
from maquette.aten.linalg import triangles as _triangles  # noqa: F401
from maquette.aten.view import stacking as _stacking  # noqa: F401
from maquette.aten.indexing import sorting as _sorting  # noqa: F401
from maquette.aten.nn.pool import max_pooling as _max_pooling  # noqa: F401
from maquette.aten.nn.pool import avg_pooling as _avg_pooling  # noqa: F401
from maquette.aten.nn.pool import adaptive_pooling as _adaptive_pooling  # noqa: F401
from maquette.aten.elementwise import binary_functions as _binary_functions  # noqa: F401
from maquette.aten.elementwise import special_functions as _special_functions  # noqa: F401
from maquette.aten.indexing import index as _index  # noqa: F401
from maquette.aten.indexing import gathering as _gathering  # noqa: F401
from maquette.aten.indexing import packing as _packing  # noqa: F401
from maquette.aten.indexing import uniqueness as _uniqueness  # noqa: F401
from maquette.aten.indexing import searching as _searching  # noqa: F401
from maquette.aten.indexing import scattering as _scattering  # noqa: F401
from maquette.aten.indexing import index_writing as _index_writing  # noqa: F401
from maquette.aten.reduction import along_dimension as _along_dimension  # noqa: F401
from maquette.aten.reduction import matrix_norms as _matrix_norms  # noqa: F401
from maquette.aten.random import random_factories as _random_factories  # noqa: F401
from maquette.aten.random import sampling as _sampling  # noqa: F401
from maquette.aten.random import dropout as _dropout  # noqa: F401
from maquette.aten.indexing import repeat_interleave as _repeat_interleave  # noqa: F401
from maquette.aten.indexing import sized_outputs as _sized_outputs  # noqa: F401
from maquette.aten.view import size_queries as _size_queries  # noqa: F401
from maquette.aten.view import metadata_queries as _metadata_queries  # noqa: F401
from maquette.aten.view import view_inverses as _view_inverses  # noqa: F401
from maquette.aten.reduction import histograms as _histograms  # noqa: F401
from maquette.aten.reduction import segment_reduce as _segment_reduce  # noqa: F401
from maquette.aten.linalg import eigen_svd as _eigen_svd  # noqa: F401
from maquette.aten.linalg import cholesky as _cholesky  # noqa: F401
from maquette.aten.linalg import lu as _lu  # noqa: F401
from maquette.aten.linalg import solving as _solving  # noqa: F401
from maquette.aten.linalg import householder as _householder  # noqa: F401
from maquette.aten.indexing import masked_indexing as _masked_indexing  # noqa: F401
from maquette.aten.linalg import matrix_functions as _matrix_functions  # noqa: F401
from maquette.aten.nn.resize import padding as _padding  # noqa: F401
from maquette.aten.factory import assertions as _assertions  # noqa: F401
from maquette.aten.fft import spectrograms as _spectrograms  # noqa: F401
from maquette.aten.linalg import diagonals as _diagonals  # noqa: F401
from maquette.aten.fft import fourier as _fourier  # noqa: F401
from maquette.aten.nn.loss import likelihood as _likelihood  # noqa: F401

# Once the overloads are there that they name or bind:
from maquette.aten import aliases as _aliases  # noqa: F401
from maquette.aten import deferred as _deferred  # noqa: F401  # the families that are loaded when asked for
