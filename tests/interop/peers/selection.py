"""Which of the published package's own tests are in scope, and what is known of the others."""

from __future__ import annotations

from typing import Final

#: Files with tests in scope, below the folder `tests` of the source distribution.
FILES: Final = (
    *(f"ndarray/test_{name}.py" for name in (
        "auto_parts", "buffer", "concat", "copy", "empty", "full", "get_slice_nchunks", "getitem", "iterchunks_info",
        "lossy", "metalayers", "mode", "nans", "ndarray", "numpy", "persistency", "resize", "schunk_lifetime",
        "setitem", "slice", "squeeze", "stringarrays", "struct_dtype", "zeros",
    )),
    *(f"test_{name}.py" for name in (
        "attrs", "batch_array", "bytes_array", "comp_info", "compress2", "compression_parameters", "compressors",
        "decompress", "deserialization", "dict_store", "embed_store", "iterchunks", "locking", "mmap", "objectarray",
        "open", "pathlib", "python_blosc", "schunk", "schunk_constructor", "schunk_delete", "schunk_get_slice",
        "schunk_get_slice_nchunks", "schunk_insert", "schunk_reorder_offsets", "schunk_set_slice", "schunk_update",
        "storage", "swmr", "tensor", "tree_store", "vlmeta",
    )),
)  # fmt: skip

_COMPUTING: Final = "computes with arrays"
_TABLES: Final = "makes a table"
_REMOTE: Final = "opens remote data, or makes references to it"
_USERS: Final = "a function of the user in the compressor"

#: Tests that use what is out of scope: a regular expression for "file::test", and why. They are not counted.
OUT_OF_SCOPE: Final = (
    (r"test_getitem.py::test_(lazyexpr_where|where_full_slice)", _COMPUTING),
    (r"test_ndarray.py::test_(argsort|sort|broadcast_to|meshgrid)", _COMPUTING),
    (r"test_attrs.py::test_attrs_alias\[<lambda>4\]", _COMPUTING),
    (r"test_attrs.py::test_attrs_alias\[<lambda>[23]\]", _TABLES),
    (r"test_attrs.py::test_attrs_alias\[<lambda>5\]", _REMOTE),
    (r"test_batch_array.py::test_remote_", _REMOTE),
    (r"test_deserialization.py::.*(cframe_defaults|reopen_defaults|before_active|chunk_copy|array_defaults)", _REMOTE),
    (r"test_deserialization.py::test_ctable", _TABLES),
    (r"test_deserialization.py::test_active_top_level", _COMPUTING),
    (r"test_deserialization.py::test_safe_arrow", "Arrow extension types, which cannot be written here"),
    (r"test_dict_store.py::test_metadata_discovery_reopens_lazyexpr", _COMPUTING),
    (r"test_embed_store.py::test_with_remote", _REMOTE),
    (r"test_iterchunks.py::test_iterchunks_pf", _USERS),
    (r"test_objectarray.py::.*(c2array|_ref|lazyexpr|lazyudf)", _COMPUTING),
    (r"test_objectarray.py::test_varlen_scalar", _TABLES),
    (r"test_tree_store.py::test_(ctable|close_|registry_fallback|delete_parent_subtree)", _TABLES),
    (r"test_tree_store.py::test_(remote_store|metadata_only_groups)", _REMOTE),
    (r"test_vlmeta.py::test_vlmeta_supports_ref", _REMOTE),
)  # fmt: skip

#: Tests that replace or call private parts of the published package, which are others here. They are not counted.
INSIDE: Final = (
    (r"test_getitem.py::test_(sparse_bool_mask_routes|(get|set)item_strided)", "which helper is called"),
    (r"test_slice.py::test_(detect_)?aligned_chunks", "a helper of its slices"),
    (r"test_batch_array.py::.*(info_uses|get_vlblock|scalar_reads|chunk_copy_batch|vlcompress)", "its helpers"),
    (r"test_deserialization.py::test_policy_is_not_mutable", "a helper that sets the policy"),
    (r"test_objectarray.py::test_objectarray_size_guard", "replaces a constant, to reach a limit that is here too"),
    (r"test_dict_store.py::test_store_tree_with_root", "a helper of its drawings"),
    (r"test_dict_store.py::test_delitem_with_map_tree", "_estore, of which `estore` is the published part here"),
    (r"test_embed_store.py::test_from_schunk_preserves", "a private argument"),
    (r"test_locking.py::test_(dict_store_read_during|embed_store_env)", "attributes that say how it locks"),
    (r"test_locking.py::test_dict_store_overwrite_never", "replaces the method that saves a leaf there"),
)  # fmt: skip

#: Tests of what differs on purpose: why stands in `doc/reference/api.md`. They are in scope, and count as not passed.
DIFFERENT: Final = (
    (r"test_embed_store.py::test_with_many_nodes", "when an EmbedStore publishes"),
    # They read a file before its writer ends, and once more after that.
    (r"test_open.py::test_open\[True-a-c-cparams[1-3]", "a file is left compact when its handle ends"),
    (r"test_swmr.py::test_(setitem|vlmeta)_follows|test_locking.py::test_growth_swmr_.*False", "seen at refresh()"),
    (r"test_locking.py::test_growth_swmr_.*True", "the shape shows the newest version, too"),
)  # fmt: skip

#: Those that want an error, or a dtype of its own, where something works here. They count as not passed, too.
FEATURES: Final = (
    (r"test_schunk_lifetime.py::test_orphan_vlmeta", "metadata outlives its array"),
    (r"test_zeros.py::test_nd_dtype", "a dtype with a shape becomes axes"),
    (r"test_dict_store.py::test_to_b2z_from_readonly", "a store that is read can be packed"),
    (r"test_locking.py::test_dict_store_locking_validation", "locking=True works for a .b2z, too"),
)
