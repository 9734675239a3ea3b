"""Loops over large NumPy arrays, compiled by Numba: the extra ``fast``.

`maquette.backends.numpy` imports this package with the first large array that a kernel could take
here, if Numba is installed; kernels ask for it by `aten.common.large_arrays.loops_for`. Each
function takes and gives NumPy arrays and computes what the kernel's plain path computes: in the
same steps where that gives the same bits, else to the few ulps that its module tells. Numba
compiles a loop with its first call (a second or two) and keeps the result beside this package, or
in the user's cache directory where that cannot be written (NUMBA_CACHE_DIR chooses another).
"""

from maquette.backends.loops.attention import attend, attend_backward
from maquette.backends.loops.boxes import box_maxima, box_means, box_shares
from maquette.backends.loops.channel_convolution import (
    channel_products,
    channel_spread,
    channel_sums,
)
from maquette.backends.loops.complex_numbers import reciprocals
from maquette.backends.loops.conversions import (
    converted,
    converted_into,
    looked_up,
    of_halves,
)
from maquette.backends.loops.distances import (
    distances_between,
    pair_distances,
    pair_gradients,
    pulls_between,
)
from maquette.backends.loops.elementwise import (
    adam_step,
    erf,
    gelu,
    gelu_backward,
    silu_backward,
    threshold_backward,
)
from maquette.backends.loops.error_function import erf_of_doubles, erfc
from maquette.backends.loops.halves import computed_on_halves
from maquette.backends.loops.lapack import for_each
from maquette.backends.loops.lines import (
    row_products,
    row_spread,
    row_sums_of_numbers,
    running_products,
    running_sums,
)
from maquette.backends.loops.normalization import (
    channel_gradients,
    channel_moments,
    row_gradients,
    row_moments,
    row_norm,
    scaled_rows,
)
from maquette.backends.loops.normals import (
    normal_blocks,
)
from maquette.backends.loops.ordering import best_places, stable_order, without_repeats
from maquette.backends.loops.pieces import (
    angle,
    chosen,
    hardshrink,
    hardsigmoid,
    hardsigmoid_backward,
    hardswish,
    hardswish_backward,
    huber,
    leaky_channels,
    leaky_relu,
    leaky_relu_backward,
    nan_to_num,
    outer_sum,
    progression,
    shrunk_backward,
    sign,
    smooth_l1,
    smooth_l1_slope,
    softshrink,
    threshold,
)
from maquette.backends.loops.positions import (
    add_rows,
    add_to_rows,
    bag_maxima,
    bag_sums,
    drawn_positions,
    even_cells,
    reversed_rows,
    running_extreme,
    swapped_in_turn,
    taken_from_rows,
    triangle_places,
)
from maquette.backends.loops.remainders import (
    floor_quotient,
    fmod,
    fused_sum,
    hypot,
    lerp,
    nextafter,
    remainder,
)
from maquette.backends.loops.samplers import (
    binomial_counts,
    gamma_numbers,
    poisson_counts,
    uniform_doubles,
)
from maquette.backends.loops.samples import (
    add_pulls,
    add_samples,
    add_to_planes,
)
from maquette.backends.loops.scatters import combine_along, combine_rows
from maquette.backends.loops.smooth import (
    elu,
    erfinv,
    function,
    log_gamma,
    log_sigmoid,
    log_sigmoid_backward,
    logistic,
    mish,
    silu,
    softplus,
    tabulated,
    trigamma,
)
from maquette.backends.loops.softmax import (
    class_losses,
    log_paths,
    log_softmax_rows,
    softmax_gradients,
    softmax_rows,
)
from maquette.backends.loops.windows import (
    add_windows,
    line_maxima,
    resampled,
    resampled_back,
    window_maxima,
)

__all__ = [
    "add_pulls",
    "add_samples",
    "add_to_planes",
    "binomial_counts",
    "class_losses",
    "log_gamma",
    "log_paths",
    "box_maxima",
    "box_means",
    "box_shares",
    "fmod",
    "fused_sum",
    "for_each",
    "lerp",
    "nextafter",
    "pair_distances",
    "pair_gradients",
    "remainder",
    "elu",
    "erfinv",
    "function",
    "log_sigmoid",
    "log_sigmoid_backward",
    "mish",
    "softplus",
    "trigamma",
    "uniform_doubles",
    "gamma_numbers",
    "poisson_counts",
    "without_repeats",
    "combine_along",
    "combine_rows",
    "best_places",
    "stable_order",
    "angle",
    "chosen",
    "floor_quotient",
    "hardshrink",
    "hardsigmoid",
    "hardsigmoid_backward",
    "hardswish",
    "hardswish_backward",
    "leaky_relu_backward",
    "huber",
    "hypot",
    "leaky_channels",
    "leaky_relu",
    "nan_to_num",
    "outer_sum",
    "progression",
    "sign",
    "smooth_l1",
    "softshrink",
    "threshold",
    "adam_step",
    "add_rows",
    "add_to_rows",
    "add_windows",
    "channel_products",
    "channel_spread",
    "channel_sums",
    "window_maxima",
    "bag_maxima",
    "bag_sums",
    "even_cells",
    "reversed_rows",
    "shrunk_backward",
    "smooth_l1_slope",
    "attend",
    "attend_backward",
    "channel_gradients",
    "channel_moments",
    "computed_on_halves",
    "distances_between",
    "pulls_between",
    "reciprocals",
    "converted",
    "converted_into",
    "looked_up",
    "drawn_positions",
    "erf",
    "erf_of_doubles",
    "erfc",
    "gelu",
    "gelu_backward",
    "line_maxima",
    "log_softmax_rows",
    "logistic",
    "normal_blocks",
    "of_halves",
    "resampled",
    "resampled_back",
    "row_gradients",
    "row_moments",
    "row_norm",
    "row_products",
    "row_spread",
    "row_sums_of_numbers",
    "running_extreme",
    "running_products",
    "running_sums",
    "scaled_rows",
    "silu",
    "silu_backward",
    "softmax_gradients",
    "softmax_rows",
    "swapped_in_turn",
    "taken_from_rows",
    "tabulated",
    "triangle_places",
    "threshold_backward",
]
