"""The operators, a family a file; importing this registers them.

One line each, in an order that does not matter: pages find one another by name.
"""

from maquette.backends import numpy as _numpy  # noqa: F401  # data on cpu
from maquette.tensor import aliasing as _aliasing  # noqa: F401  # views and writes
from maquette.autograd import record as _record  # noqa: F401  # recording

# Families:
from maquette.aten import arithmetic as _arithmetic  # noqa: F401
from maquette.aten import division as _division  # noqa: F401
from maquette.aten import complex_parts as _complex_parts  # noqa: F401
from maquette.aten import conjugate as _conjugate  # noqa: F401
from maquette.aten import activations_exponential as _activations_exponential  # noqa: F401
from maquette.aten import activations_smooth as _activations_smooth  # noqa: F401
from maquette.aten import activations as _activations  # noqa: F401
from maquette.aten import blends as _blends  # noqa: F401
from maquette.aten import extrema as _extrema  # noqa: F401
from maquette.aten import powers as _powers  # noqa: F401
from maquette.aten import rounding as _rounding  # noqa: F401
from maquette.aten import transcendental as _transcendental  # noqa: F401
from maquette.aten import selection as _selection  # noqa: F401
from maquette.aten import comparison as _comparison  # noqa: F401
from maquette.aten import reductions as _reductions  # noqa: F401
from maquette.aten import extremes as _extremes  # noqa: F401
from maquette.aten import linalg as _linalg  # noqa: F401
from maquette.aten import outer_products as _outer_products  # noqa: F401
from maquette.aten import products as _products  # noqa: F401
from maquette.aten import einsum as _einsum  # noqa: F401
from maquette.aten import views as _views  # noqa: F401
from maquette.aten import view_lists as _view_lists  # noqa: F401
from maquette.aten import shapes as _shapes  # noqa: F401
from maquette.aten import copies as _copies  # noqa: F401
from maquette.aten import joining as _joining  # noqa: F401
from maquette.aten import factories as _factories  # noqa: F401
from maquette.aten import creation as _creation  # noqa: F401
from maquette.aten import tensor_methods as _tensor_methods  # noqa: F401
from maquette.aten import memory_methods as _memory_methods  # noqa: F401
from maquette.aten import element_methods as _element_methods  # noqa: F401
from maquette.aten import kind_methods as _kind_methods  # noqa: F401
from maquette.aten import embedding as _embedding  # noqa: F401
from maquette.aten import softmax as _softmax  # noqa: F401
from maquette.aten import normalization as _normalization  # noqa: F401
from maquette.aten import group_norm as _group_norm  # noqa: F401
from maquette.aten import batch_norm as _batch_norm  # noqa: F401
from maquette.aten import batch_norm_functions as _batch_norm_functions  # noqa: F401
from maquette.aten import fused_attention as _fused_attention  # noqa: F401
from maquette.aten import attention as _attention  # noqa: F401
from maquette.aten import statistics as _statistics  # noqa: F401
from maquette.aten import vector_norms as _vector_norms  # noqa: F401
from maquette.aten import scans as _scans  # noqa: F401
from maquette.aten import convolution as _convolution  # noqa: F401
from maquette.aten import convolution_forms as _convolution_forms  # noqa: F401
from maquette.aten import losses as _losses  # noqa: F401
from maquette.aten import binary_losses as _binary_losses  # noqa: F401
from maquette.aten import loss_composites as _loss_composites  # noqa: F401
from maquette.aten import ranges as _ranges  # noqa: F401
from maquette.aten import rearranging as _rearranging  # noqa: F401
from maquette.aten import view_copies as _view_copies  # noqa: F401
from maquette.aten import inplace_views as _inplace_views  # noqa: F401
from maquette.aten import view_scatters as _view_scatters  # noqa: F401
from maquette.aten import resizing as _resizing  # noqa: F401
from maquette.aten import triangles as _triangles  # noqa: F401
from maquette.aten import stacks as _stacks  # noqa: F401
from maquette.aten import sorting as _sorting  # noqa: F401
from maquette.aten import max_pooling as _max_pooling  # noqa: F401
from maquette.aten import avg_pooling as _avg_pooling  # noqa: F401
from maquette.aten import adaptive_pooling as _adaptive_pooling  # noqa: F401
from maquette.aten import pairs as _pairs  # noqa: F401
from maquette.aten import special_functions as _special_functions  # noqa: F401
from maquette.aten import indexing as _indexing  # noqa: F401
from maquette.aten import gathering as _gathering  # noqa: F401
from maquette.aten import uniqueness as _uniqueness  # noqa: F401
from maquette.aten import searching as _searching  # noqa: F401
from maquette.aten import scattering as _scattering  # noqa: F401
from maquette.aten import index_writing as _index_writing  # noqa: F401
from maquette.aten import composites as _composites  # noqa: F401
from maquette.aten import subscripts as _subscripts  # noqa: F401
from maquette.aten import norms as _norms  # noqa: F401
from maquette.aten import random as _random  # noqa: F401
from maquette.aten import sampling as _sampling  # noqa: F401
from maquette.aten import dropout as _dropout  # noqa: F401
from maquette.aten import interleaving as _interleaving  # noqa: F401
from maquette.aten import geometry_queries as _geometry_queries  # noqa: F401
from maquette.aten import histograms as _histograms  # noqa: F401
from maquette.aten import gradients as _gradients  # noqa: F401
from maquette.aten import segments as _segments  # noqa: F401
from maquette.aten import spectra as _spectra  # noqa: F401
from maquette.aten import cholesky as _cholesky  # noqa: F401
from maquette.aten import lu as _lu  # noqa: F401
from maquette.aten import solving as _solving  # noqa: F401
from maquette.aten import qr_factors as _qr_factors  # noqa: F401
from maquette.aten import masked_indexing as _masked_indexing  # noqa: F401
from maquette.aten import matrix_functions as _matrix_functions  # noqa: F401
from maquette.aten import padding as _padding  # noqa: F401
from maquette.aten import assertions as _assertions  # noqa: F401
from maquette.aten import spectrograms as _spectrograms  # noqa: F401
from maquette.aten import counts as _counts  # noqa: F401
from maquette.aten import diagonals as _diagonals  # noqa: F401
from maquette.aten import fourier as _fourier  # noqa: F401
from maquette.aten import likelihood as _likelihood  # noqa: F401

# Once the overloads are there that they name or bind:
from maquette.aten import aliases as _aliases  # noqa: F401
from maquette.aten import methods as _methods  # noqa: F401  # Python's operators
from maquette.aten import late as _late  # noqa: F401  # the families that are loaded when asked for
