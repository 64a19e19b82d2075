"""A module with one fact about NumPy, under the name used by the older implementation."""

#: Whether NumPy is 2.0 or newer; this package needs that.
NUMPY_GE_2_0 = True
