# Finds C-Blosc2 and sets CBLOSC2_TARGET. Looked at, in this order:
#   1. a source tree that the user points to (CBLOSC2_SOURCE), which is built with this package;
#   2. an installed one that the user points to (Blosc2_ROOT, Blosc2_DIR, CMAKE_PREFIX_PATH);
#   3. the `blosc2` wheel in the building interpreter's environment, which carries libblosc2.a and its headers;
#   4. an installed C-Blosc2, by its CMake files, then by pkg-config.
# Of the first three kinds the static library is preferred.
#
# Sets CBLOSC2_HAS_CODECS, too: whether the functions of the codecs themselves can be linked (own_decoder.h).

set(CBLOSC2_MINIMUM 3.3.5)
set(CBLOSC2_SOURCE "" CACHE PATH "A source tree of C-Blosc2, to be built with the package")

# What has to be passed on with pip, in the words of every message below.
set(how_to_get_it
  "Either build with pip's build isolation, which brings the library by itself (pip install ., without "
  "--no-build-isolation), or install C-Blosc2 with its headers and name its prefix:\n"
  "    pip install . -C cmake.define.Blosc2_ROOT=/path/to/prefix\n"
  "or name its source tree, which is then built with the package (its own options go the same way):\n"
  "    pip install . -C cmake.define.CBLOSC2_SOURCE=/path/to/c-blosc2\n"
  "The blosc2 wheel, unpacked outside the environment, is such a prefix too:\n"
  "    pip install --no-deps --target /path/to/somewhere blosc2==4.14.1    (prefix: /path/to/somewhere/blosc2)")
string(CONCAT how_to_get_it ${how_to_get_it})
set(needed "python-blosc2 needs the C-Blosc2 library, ${CBLOSC2_MINIMUM} or newer of the 3.x series;")

if(CBLOSC2_SOURCE)
  include(CBlosc2Source)
  return()
endif()

# Files are asked of the wheel's metadata, not of `import blosc2`: this package has the same import name.
set(find_wheel [[
from importlib import metadata
try:
    files = metadata.distribution("blosc2").files or []
except metadata.PackageNotFoundError:
    files = []
print(next((str(f.locate().parent) for f in files if f.name == "Blosc2Config.cmake"), ""))
]])
execute_process(COMMAND "${Python_EXECUTABLE}" -c "${find_wheel}"
  OUTPUT_VARIABLE wheel_cmake_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
file(TO_CMAKE_PATH "${wheel_cmake_dir}" wheel_cmake_dir)

# An earlier configuration may have left the path of an isolated environment that is gone.
if(Blosc2_DIR AND NOT EXISTS "${Blosc2_DIR}")
  unset(Blosc2_DIR CACHE)
endif()
find_package(Blosc2 ${CBLOSC2_MINIMUM} CONFIG QUIET HINTS ${wheel_cmake_dir})

set(too_old "")
if(Blosc2_FOUND)
  foreach(candidate IN ITEMS Blosc2::blosc2_static Blosc2::blosc2_shared)
    # Its CMake files define both targets, also where only one library is installed.
    if(TARGET ${candidate})
      get_target_property(library ${candidate} LOCATION)
      if(EXISTS "${library}")
        set(CBLOSC2_TARGET ${candidate})
        break()
      endif()
    endif()
  endforeach()
  set(found_version "${Blosc2_VERSION}")
  set(found_place "${Blosc2_DIR}")
else()
  set(too_old ${Blosc2_CONSIDERED_VERSIONS})
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(CBLOSC2_PC QUIET IMPORTED_TARGET blosc2)
  endif()
  if(CBLOSC2_PC_FOUND)
    if(CBLOSC2_PC_VERSION VERSION_GREATER_EQUAL CBLOSC2_MINIMUM AND CBLOSC2_PC_VERSION VERSION_LESS 4)
      set(CBLOSC2_TARGET PkgConfig::CBLOSC2_PC)
      set(found_version "${CBLOSC2_PC_VERSION}")
      set(found_place "pkg-config, ${CBLOSC2_PC_PREFIX}")
    else()
      list(APPEND too_old "${CBLOSC2_PC_VERSION}")
    endif()
  endif()
endif()

if(NOT CBLOSC2_TARGET)
  if(too_old)
    list(REMOVE_DUPLICATES too_old)
    list(JOIN too_old ", " too_old)
    set(problem "the C-Blosc2 found here is of a version that does not serve (${too_old}).")
  else()
    set(problem "no C-Blosc2 was found.")
  endif()
  message(FATAL_ERROR "${needed} ${problem}\n${how_to_get_it}")
endif()
message(STATUS "C-Blosc2 ${found_version}: ${CBLOSC2_TARGET} (${found_place})")

# A static library has the codecs themselves, too, if it was built with them and they are not hidden in another one.
if(CBLOSC2_TARGET STREQUAL "Blosc2::blosc2_static")
  include(CheckCSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES Blosc2::blosc2_static)
  check_c_source_compiles([[
    #include <stddef.h>
    int blosclz_decompress(const void *, int, void *, int);
    int LZ4_decompress_safe_usingDict(const char *, char *, int, int, const char *, int);
    int LZ4_decompress_safe_partial_usingDict(const char *, char *, int, int, int, const char *, int);
    size_t ZSTD_decompressDCtx(void *, void *, size_t, const void *, size_t);
    void *ZSTD_createDCtx(void);
    size_t ZSTD_freeDCtx(void *);
    int main(int argc, char **argv) {
      void *context = ZSTD_createDCtx();
      return blosclz_decompress(argv[0], argc, argv[1], argc)
        + LZ4_decompress_safe_usingDict(argv[0], argv[1], argc, argc, argv[1], 0)
        + LZ4_decompress_safe_partial_usingDict(argv[0], argv[1], argc, argc, argc, argv[1], 0)
        + (int) ZSTD_decompressDCtx(context, argv[1], 1, argv[0], 1) + (int) ZSTD_freeDCtx(context);
    }]] CBLOSC2_HAS_CODECS)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()
