"""The name under which programs for the older implementation look for one fact about NumPy."""

#: Whether NumPy is 2.0 or newer; this package needs that.
NUMPY_GE_2_0 = True
