/* out = input * rstd * weight, rstd = 1 / sqrt(mean(input^2) + eps), a row at a time.
 * One pass reads a row for its sum of squares, one writes it: nothing else is in memory. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>

#define ROWS(NAME, T)                                                                       \
    static void NAME(const T *x, const T *w, T *out, T *rstd, Py_ssize_t rows,              \
                     Py_ssize_t width, double eps) {                                        \
        for (Py_ssize_t r = 0; r < rows; r++, x += width, out += width) {                   \
            double sum = 0;                                                                 \
            for (Py_ssize_t i = 0; i < width; i++) sum += (double)x[i] * (double)x[i];      \
            double scale = 1 / sqrt(sum / (double)width + eps);                             \
            rstd[r] = (T)scale;                                                             \
            for (Py_ssize_t i = 0; i < width; i++) out[i] = (T)((double)x[i] * scale * (double)w[i]); \
        }                                                                                   \
    }

ROWS(rows_float, float)
ROWS(rows_double, double)

static PyObject *rms_norm(PyObject *self, PyObject *args) {
    Py_buffer x, w, out, rstd;
    double eps;
    if (!PyArg_ParseTuple(args, "y*y*w*w*d", &x, &w, &out, &rstd, &eps)) return NULL;
    int wide = w.itemsize == 1 ? 0 : w.itemsize == sizeof(double);
    Py_ssize_t item = wide ? sizeof(double) : sizeof(float);
    Py_ssize_t width = w.len / item, rows = rstd.len / item;
    int fits = x.len == rows * width * item && out.len == x.len;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        if (wide) rows_double(x.buf, w.buf, out.buf, rstd.buf, rows, width, eps);
        else rows_float(x.buf, w.buf, out.buf, rstd.buf, rows, width, eps);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "rms_norm: sizes of the buffers do not fit");
    }
    PyBuffer_Release(&x);
    PyBuffer_Release(&w);
    PyBuffer_Release(&out);
    PyBuffer_Release(&rstd);
    if (!fits) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"rms_norm", rms_norm, METH_VARARGS, "Normalize rows: input, weight, out, rstd, eps."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_rms_norm", NULL, -1, methods};
PyMODINIT_FUNC PyInit__rms_norm(void) { return PyModule_Create(&module); }
