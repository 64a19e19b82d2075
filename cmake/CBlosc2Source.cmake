# Builds C-Blosc2 from the source tree CBLOSC2_SOURCE, as part of this package; for CBlosc2.cmake.
# What C-Blosc2 itself can be told (BLOSC_DEPENDENCY_MODE, BLOSC_ZSTD_SOURCE_DIR, DEACTIVATE_ZLIB, ...) is passed on.

set(header "${CBLOSC2_SOURCE}/include/blosc2.h")
if(NOT EXISTS "${header}" OR NOT EXISTS "${CBLOSC2_SOURCE}/CMakeLists.txt")
  message(FATAL_ERROR
    "${needed} CBLOSC2_SOURCE names ${CBLOSC2_SOURCE}, which is no source tree of it: "
    "there is no include/blosc2.h or no CMakeLists.txt.\n${how_to_get_it}")
endif()
file(STRINGS "${header}" found_version REGEX "^#define +BLOSC2_VERSION_STRING ")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" found_version "${found_version}")
if(found_version VERSION_LESS CBLOSC2_MINIMUM OR found_version VERSION_GREATER_EQUAL 4)
  message(FATAL_ERROR
    "${needed} the source tree ${CBLOSC2_SOURCE} is of a version that does not serve (${found_version}).\n"
    "${how_to_get_it}")
endif()

# Only the static library, and nothing of it is installed.
set(BUILD_SHARED OFF CACHE BOOL "" FORCE)
set(BUILD_STATIC ON CACHE BOOL "" FORCE)
foreach(part IN ITEMS TESTS FUZZERS BENCHMARKS EXAMPLES)
  set(BUILD_${part} OFF CACHE BOOL "" FORCE)
endforeach()
add_subdirectory("${CBLOSC2_SOURCE}" c-blosc2 EXCLUDE_FROM_ALL)
set(CBLOSC2_TARGET Blosc2::blosc2_static)

# It cannot be linked with yet; its configuration says what it will have. BloscLZ and LZ4 always are.
file(STRINGS "${CMAKE_CURRENT_BINARY_DIR}/c-blosc2/blosc/config.h" has_zstd REGEX "^#define HAVE_ZSTD")
if(has_zstd)
  set(CBLOSC2_HAS_CODECS ON)
endif()
message(STATUS "C-Blosc2 ${found_version}: built from ${CBLOSC2_SOURCE}")
