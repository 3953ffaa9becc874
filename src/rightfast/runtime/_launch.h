/* The key of a launch, and the values that its kernel is given; see _launch.c. */

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

enum { MOST = 64 }; /* arguments of a launch */
/* What a parameter is: a constant of the kernel; 1 and multiples of 16 have kernels of their own. */
enum { CONSTEXPR = 1, ONE = 2, SIXTEENTHS = 4 };
enum { IS_SIXTEENTHS = 1 << 8, IS_ODD = 1 << 8 }; /* in a key: an integer is, a pointer is not */

/* dlpack.h, as far as it is read here. */
typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct {
    uint32_t major, minor;
    void *previous, *allocator, *owned_from_object, *owned_to_object;
    int (*read)(void *object, DLTensor *out); /* owns nothing, waits for nothing */
} Exchange;

/* How the arguments of one kernel are read. */
typedef struct {
    PyObject *tensor, *parameter; /* the classes whose instances are tensors */
    PyObject *whole[2]; /* the dtypes of signed and unsigned integers of 8 bits */
    const Exchange *exchange;
    int memory; /* DLPack's number of the kind of device whose addresses are passed */
    Py_ssize_t settings, count;
    char what[MOST]; /* of each parameter */
} Reader;

/* Each of these gives one argument its key and its value, if it has one; 0: not known here. The
   lowest byte of a key is a letter for the kind of argument, which launch_native.py reads. */

static int has_dtype(PyObject *tensor, PyObject *dtype)
{
    PyObject *found = PyObject_GetAttrString(tensor, "dtype");
    if (!found)
        PyErr_Clear();
    Py_XDECREF(found);
    return found == dtype;
}

static int key_of_tensor(const Reader *reader, PyObject *given, int what, uint64_t *key, uint64_t *value)
{
    DLTensor found;
    if (reader->exchange->read(given, &found) != 0) {
        PyErr_Clear(); /* Python comes upon the same, and raises it */
        return 0;
    }
    if (found.device_type != reader->memory)
        return 0; /* Triton has to see it, and refuses what the device cannot read */
    if (found.bits == 8 && found.code < 2 && !has_dtype(given, reader->whole[found.code]))
        return 0; /* torch gives out its integers of fewer bits as those of 8 */
    *value = (uint64_t)(uintptr_t)found.data + found.byte_offset;
    *key = 'p' | (uint64_t)found.code << 32 | (uint64_t)found.bits << 40 |
           (uint64_t)found.lanes << 48;
    if ((what & SIXTEENTHS) && (*value & 15))
        *key |= IS_ODD;
    return 1;
}

static int key_of_integer(PyObject *given, int what, uint64_t *key, uint64_t *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(given, &overflow);
    if (overflow < 0)
        return 0;
    *value = (uint64_t)number;
    if (overflow) {
        *value = PyLong_AsUnsignedLongLong(given);
        if (*value == UINT64_MAX && PyErr_Occurred()) {
            PyErr_Clear();
            return 0;
        }
    }
    if (number == 1 && (what & ONE)) {
        *key = '1';
        return 1;
    }
    *key = overflow ? 'u' : INT32_MIN <= number && number <= INT32_MAX ? 'i' : 'l';
    if ((what & SIXTEENTHS) && !(*value & 15))
        *key |= IS_SIXTEENTHS;
    return 1;
}

static int key_of_constant(PyObject *given, uint64_t *key)
{
    int overflow;
    if (given == Py_None)
        *key = 'N';
    else if (given == Py_True || given == Py_False)
        *key = 'B' | (uint64_t)(given == Py_True) << 8;
    else if (PyLong_CheckExact(given)) {
        long long number = PyLong_AsLongLongAndOverflow(given, &overflow);
        if (overflow || number < -(1LL << 54) || number >= 1LL << 54)
            return 0;
        *key = 'C' | (uint64_t)number << 8;
    } else
        return 0;
    return 1;
}

static int key_of_argument(const Reader *reader, PyObject *given, int what, uint64_t *key,
                           uint64_t *value)
{
    PyObject *kind = (PyObject *)Py_TYPE(given);
    *value = 0;
    if (what & CONSTEXPR)
        return key_of_constant(given, key);
    if (kind == reader->tensor || kind == reader->parameter)
        return key_of_tensor(reader, given, what, key, value);
    if (PyLong_CheckExact(given))
        return key_of_integer(given, what, key, value);
    if (PyFloat_CheckExact(given)) {
        double number = PyFloat_AsDouble(given);
        memcpy(value, &number, sizeof number);
        *key = 'f';
    } else if (given == Py_None)
        *key = 'n';
    else if (given == Py_True || given == Py_False) {
        *value = given == Py_True;
        *key = 'b';
    } else
        return 0;
    return 1;
}

/* A setting that Triton reads at every launch: nearly always one of these. */
static int key_of_setting(PyObject *given)
{
    if (given == Py_None || given == Py_False || given == Py_True)
        return given == Py_None ? 1 : given == Py_False ? 2 : 3;
    return PyUnicode_CheckExact(given) && PyUnicode_GetLength(given) == 0 ? 4 : 0;
}

/* The device and the settings, then the arguments: 1 + count words. */
static int key_of_launch(const Reader *reader, PyObject *device, PyObject *const *given, uint64_t *key,
                         uint64_t *values)
{
    long number = PyLong_AsLong(device);
    if (number < 0) {
        PyErr_Clear();
        return 0;
    }
    key[0] = (uint64_t)number;
    for (Py_ssize_t n = 0; n < reader->settings; n++) {
        uint64_t setting = (uint64_t)key_of_setting(given[n]);
        if (!setting)
            return 0;
        key[0] |= setting << (32 + 8 * n);
    }
    given += reader->settings;
    for (Py_ssize_t n = 0; n < reader->count; n++)
        if (!key_of_argument(reader, given[n], reader->what[n], key + 1 + n, values + n))
            return 0;
    return 1;
}
