#include <Python.h>

/* double_in_place(address, count): multiply float32 numbers by two. */
static PyObject *double_in_place(PyObject *self, PyObject *args)
{
    unsigned long long address;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "Kn", &address, &count))
        return NULL;
    float *numbers = (float *)address;
    for (Py_ssize_t i = 0; i < count; i++)
        numbers[i] *= 2.0f;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"double_in_place", double_in_place, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_core", NULL, -1, methods};
PyMODINIT_FUNC PyInit__core(void) { return PyModule_Create(&module); }
