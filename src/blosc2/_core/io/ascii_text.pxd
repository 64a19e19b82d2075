"""The characters of a string that is ASCII, without a call and without the GIL, as long as somebody keeps the string."""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

cdef extern from *:
    """
    #include <string.h>

    /* NULL for another object, be it a string that has other characters or one of a class of its own. */
    static inline const uint8_t *ascii_text(PyObject *text, Py_ssize_t *length) {
        if (!PyUnicode_CheckExact(text) || !PyUnicode_IS_COMPACT_ASCII(text))
            return NULL;
        *length = PyUnicode_GET_LENGTH(text);
        return PyUnicode_1BYTE_DATA(text);
    }

    /* A key with the "/" in front that it lacks; any other object as it is. */
    static inline PyObject *with_slash(PyObject *key) {
        Py_ssize_t length = 0;
        const uint8_t *text = ascii_text(key, &length);
        PyObject *whole = key;
        if (text == NULL || length == 0 || text[0] == '/') {
            Py_INCREF(key);
        } else {
            whole = PyUnicode_New(length + 1, 127);
            if (whole != NULL) {
                PyUnicode_1BYTE_DATA(whole)[0] = '/';
                memcpy(PyUnicode_1BYTE_DATA(whole) + 1, text, (size_t)length);
            }
        }
        return whole;
    }
    """
    const uint8_t *ascii_text(PyObject *text, Py_ssize_t *length) nogil
    object with_slash(object key)
