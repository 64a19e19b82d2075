"""What a caller may ask for, checked once: modes of files and stores, codecs and filters, threads, active values.

Nothing here knows frames, arrays or stores, and nothing is opened. A keyword of several functions is checked here, so
that it means the same everywhere.
"""

from typing import TYPE_CHECKING

from blosc2._core.codec.thread_pool import worth_threads
from blosc2._core.on_demand import on_demand

if TYPE_CHECKING:
    from blosc2._options.absent import *
    from blosc2._options.block_cache import *
    from blosc2._options.codecs import *
    from blosc2._options.encoding import *
    from blosc2._options.events import *
    from blosc2._options.goals import *
    from blosc2._options.modes import *
    from blosc2._options.paths import *
    from blosc2._options.threads import *
else:
    __getattr__ = on_demand(__name__, {
        "absent": (
            "OF_ARRAYS OF_CHUNKS OF_STORES OPAQUE_KINDS explain_absent explain_name "
            "kind_in_words lacking needed shown_names"
        ),
        "block_cache": "BlockCacheStats block_cache_stats set_block_cache",
        "codecs": "PLUGIN_FORMAT Codec Filter Support lossy_codecs",
        "encoding": (
            "FIELDS FILTER_SLOTS Encoding check_meta declared_encoding encoding_of fields_of "
            "plain_encoding with_metas zstd_encoding"
        ),
        "events": "Metrics count metrics tell told_commit told_rewrite told_wait",
        "goals": "ALIASES GOALS Precision bytes_of_text goal_named precision_of",
        "modes": (
            "DeserializeMode StoreOptions as_flag check_directory_mapping check_locking check_modes check_new_modes "
            "check_open_modes check_target_mode check_timeout deserialize_mode refuse_without_path "
            "shares_by_environment store_options"
        ),
        "paths": (
            "NOT_CONVERTED RemoteOptions RemotePath absolute_path check_new_name check_remote local_path new_path "
            "of_another_format how_to_change is_remote remote_path scheme_of shortened split_other_format "
            "tell_of_mapping without_secrets"
        ),
        "threads": (
            "COMPRESSED_BESIDE PARALLEL_WORK check_nthreads compress compressed detect_number_of_cores get_nthreads "
            "keep_in_step ncores reads_beside run set_nthreads shares_chunk"
        ),
    })  # fmt: skip
