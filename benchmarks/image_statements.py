"""Statements of `operator_statements.py` about images of 10⁴ and 10⁵ elements.

``small`` is [2, 8, 25, 25], ``medium`` [4, 16, 40, 40], ``volumes`` [2, 8, 18, 18, 18], ``lines``
[8, 16, 800]; with ``_last`` their channels are last in memory. At these sizes the time of a call
itself counts, which the images of `layer_statements.py` do not show.
"""

from __future__ import annotations

IMAGE_SETUP = """
def _last(t):
    return t.contiguous(memory_format=(T.channels_last, T.channels_last_3d)[t.dim() - 4])


small, medium = _of(T.randn(2, 8, 25, 25)), _of(T.randn(4, 16, 40, 40))
volumes, lines = _of(T.randn(2, 8, 18, 18, 18)), _of(T.randn(8, 16, 800))
small_last, medium_last, volumes_last = _last(small), _last(medium), _last(volumes)
small_grid, medium_grid = (_of(T.rand(*s, 2) * 2 - 1) for s in ((2, 25, 25), (4, 40, 40)))
volumes_grid = _of(T.rand(2, 18, 18, 18, 3) * 2 - 1)
wide16, grouped16, single16 = (_of(T.randn(16, n, 3, 3)) for n in (16, 4, 1))
wide16_last, grouped16_last, single16_last = map(_last, (wide16, grouped16, single16))
back16, back8 = _of(T.randn(16, 8, 4, 4)), _of(T.randn(8, 4, 3, 3, 3))
lines1, lines16 = _of(T.randn(16, 16, 3)), _of(T.randn(16, 1, 3))
short = _of(T.randn(10_000, 10))
many_rows, many_labels = _of(T.randn(1_000, 10)), T.randint(0, 10, (1_000, 10))
"""

IMAGES = """
F.grid_sample({small small_last}, small_grid, mode={'bilinear' 'nearest' 'bicubic'},
    align_corners=False)
F.grid_sample({medium medium_last}, medium_grid, mode={'bilinear' 'nearest' 'bicubic'},
    align_corners=False)
F.grid_sample({small[:1,:3],small_grid[:1] small[:1,:3],small_grid[:1,:8,:8]}, align_corners=False)
F.grid_sample({volumes volumes_last}, volumes_grid, mode={'bilinear' 'nearest'},
    align_corners=False)
{_train _gradients}(F.grid_sample, {small small_last}, small_grid, {'bilinear' 'bicubic'},
    align_corners=False)
{_train _gradients}(F.grid_sample, {medium medium_last}, medium_grid, {'bilinear' 'nearest'
    'bicubic'}, align_corners=False)
_gradients(F.grid_sample, {small[:1,:3],small_grid[:1] small[:1,:3],small_grid[:1,:8,:8]},
    align_corners=False)
_gradients(F.grid_sample, {volumes volumes_last}, volumes_grid, align_corners=False)
F.affine_grid(theta, ({4,3,25,25 4,3,40,40}), align_corners=False)

F.interpolate({small medium small_last medium_last}, scale_factor={2 0.5}, mode={'nearest'
    'nearest-exact' 'bilinear' 'bicubic' 'area'})
F.interpolate({small medium small_last medium_last}, size=(13, 11), mode={'bilinear' 'bicubic'},
    antialias={True False})
F.interpolate({small medium small_last medium_last}, size=(50, 60), mode={'bilinear' 'bicubic'},
    antialias=True)
F.interpolate({small medium small_last medium_last}, size=(50, 60), mode='bilinear',
    align_corners=True)
F.interpolate(lines, scale_factor={2 0.5}, mode={'nearest' 'linear' 'area'})
F.interpolate({volumes volumes_last}, scale_factor={2 0.5}, mode={'nearest' 'trilinear' 'area'})
_train(F.interpolate, {small medium small_last medium_last}, scale_factor={2 0.5}, mode={'nearest'
    'bilinear' 'bicubic' 'area'})
_train(F.interpolate, {small medium small_last medium_last}, size=(13, 11), mode={'bilinear'
    'bicubic'}, antialias=True)
_train(F.interpolate, {volumes volumes_last}, scale_factor={2 0.5}, mode={'nearest' 'trilinear'})
_train(F.interpolate, lines, scale_factor={2 0.5}, mode={'nearest' 'linear'})

F.{avg_pool1d max_pool1d}({lines lines[:2,:8]}, {2 3})
_train(F.{avg_pool1d max_pool1d}, {lines lines[:2,:8]}, {2 3})
F.{avg_pool2d max_pool2d}({small medium small_last medium_last}, {2 3,2,1})
_train(F.{avg_pool2d max_pool2d}, {small medium small_last medium_last}, {2 3,2,1})
F.{avg_pool3d max_pool3d}({volumes volumes_last}, {2 3,2,1})
_train(F.{avg_pool3d max_pool3d}, {volumes volumes_last}, {2 3,2,1})
F.{adaptive_avg_pool2d adaptive_max_pool2d}({small medium small_last medium_last}, {1 5 7})
_train(F.{adaptive_avg_pool2d adaptive_max_pool2d}, {small medium small_last medium_last}, {1 5})
F.{adaptive_avg_pool3d adaptive_max_pool3d}({volumes volumes_last}, 3)
F.max_unpool2d(*F.max_pool2d(medium, 2, return_indices=True), 2)
F.lp_pool2d({small medium small_last medium_last}, 2, 3)

F.pad({small medium small_last medium_last}, (1, 2, 1, 2), {'constant' 'reflect' 'replicate'
    'circular'})
_train(F.pad, {small medium small_last medium_last}, (1, 2, 1, 2), {'constant' 'reflect'
    'replicate' 'circular'})
F.{unfold}({small medium small_last medium_last}, 3)
_train(F.unfold, {small medium small_last medium_last}, 3)
F.{pixel_shuffle channel_shuffle}({small medium small_last medium_last}, 2)
F.pixel_unshuffle({small[...,:24,:24] medium medium_last}, 2)
F.conv2d(medium, {wide16 wide16[...,:1,:1]}, padding={0 1})
F.conv2d(medium_last, wide16_last, {stride=2 padding=1 dilation=2})
F.conv2d({medium,grouped16 medium_last,grouped16_last}, groups=4, padding=1)
F.conv2d({medium,single16 medium_last,single16_last}, groups=16, padding=1)
F.conv2d({small small_last}, wide16[:,:8], padding=1)
F.conv1d(lines, lines1, padding=1)
F.conv1d(lines, lines16, groups=16)
F.conv_transpose2d({medium medium_last}, back16, {stride=1 stride=2 stride=2,padding=1})
F.conv_transpose3d({volumes volumes_last}, back8, {stride=1 stride=2})
_gradients(F.conv2d, medium, wide16, padding=1)
_gradients(F.conv2d, medium_last, wide16_last, padding=1)
_gradients(F.conv2d, {medium,grouped16 medium_last,grouped16_last}, groups=4, padding=1)
_gradients(F.conv2d, {medium,single16 medium_last,single16_last}, groups=16, padding=1)
_gradients(F.conv_transpose2d, {medium medium_last}, back16, {stride=1 stride=2})
_gradients(F.conv_transpose3d, {volumes volumes_last}, back8, {stride=1 stride=2})
_gradients(F.conv1d, lines, lines1, padding=1)
F.batch_norm({small[:,:8] medium[:,:8] medium_last}, None, None, training=True)
F.group_norm({small medium small_last medium_last}, 4)
F.instance_norm({small medium small_last medium_last})
F.local_response_norm({small medium small_last medium_last}, 5)

{small_last medium_last}.{sum mean amax amin var std all any logsumexp}(({2,3}))
{small_last medium_last}.{sum mean amax amin var argmax max softmax log_softmax cumsum argmin
    sort}(1)
{small_last medium_last}.{sum mean amax var}()
{small_last medium_last}.{sum amax argmax max min}(3)
_train(lambda t: t.{mean amax amin logsumexp std}((2, 3)), {medium medium_last})
_train(lambda t: t.{mean softmax logsumexp amax}(1), {medium medium_last})
medium_last[:, :8] {+ * / <} medium_last[:, 8:]
medium_last[:, {:8 ::2 3:9}].{exp sigmoid clone contiguous relu}()
medium_last[:, :8].{sum double half long clone}()
medium_last[:, :, ::2, ::2] {+ *} medium_last[:, :, 1::2, 1::2]
medium_last[:, :, 5:30, 5:30] {+ *} {2 medium_last[:,:,1:26,1:26]}
medium_last {+ *} {medium medium[:,:1] medium[:1,:,:1,:1] medium[0,0]}
medium[:, :1].expand_as(medium).{double half long sum clone contiguous exp mean amax}()
medium[:, :1].expand_as(medium).{sum mean amax}(({0,1 2,3 1}))
medium[:, :, :1].expand_as(medium).{double half long sum clone contiguous exp}()
x[0].expand(100, 1_000).{double long half bool sum mean amax clone exp}()
x[:100, :1].expand(100, 1_000).{double long half bool sum mean amax clone exp}()
x[0].expand(100, 1_000).{sum mean amax cumsum softmax argmax sort}({0 1})
x[:100, :1].expand(100, 1_000).{sum mean amax cumsum softmax argmax sort}({0 1})
T.cat([{medium,medium medium_last,medium_last}], {1 0})
T.cat([small_last, small_last], 1)
T.stack([{medium,medium medium_last,medium_last}], 1)
medium_last.{chunk split}(4, 1)
{medium medium_last}.{flip}({1 3})
x[:800, :100].{unbind}(0)
x[:100, :100].{unbind split chunk tensor_split}({1 0})
{short many_rows}.{sort argsort msort median unique}()
{short many_rows}.{sort argsort median mode cummax cumsum}(1)
{short many_rows}.{topk kthvalue}(3, 1)
{short many_rows}.sort(dim=0)
_train(T.sort, {short many_rows}, 1)
F.{nll_loss cross_entropy multi_margin_loss}({many_rows x[:1_000,:100]}, many_labels[:, 0])
F.nll_loss({many_rows x[:1_000,:100]}, many_labels[:, 0], reduction={'none' 'sum'})
F.nll_loss(many_rows, many_labels[:, 0], weight=x[0, :10])
_train(F.{nll_loss cross_entropy multi_margin_loss}, {many_rows x[:1_000,:100]}, many_labels[:, 0])
F.multilabel_margin_loss({many_rows,many_labels many_rows[:100],many_labels[:100]})
F.multilabel_soft_margin_loss(many_rows, many_labels.to(D))
_train(F.multilabel_margin_loss, many_rows, many_labels)
"""
