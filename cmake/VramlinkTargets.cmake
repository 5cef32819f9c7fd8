# Flags live on targets; these functions put them there.

# vramlink_warnings(<target> [STRICT])
# STRICT adds the conversion warnings that library code is held to and test code is not.
function(vramlink_warnings target)
  cmake_parse_arguments(arg "STRICT" "" "" ${ARGN})
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
    -Woverloaded-virtual)
  if(arg_STRICT)
    target_compile_options(${target} PRIVATE -Wconversion -Wold-style-cast)
  endif()
  # g++ 12 reports overlapping copies inside std::string that do not exist (GCC bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)
    if(NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
      # The same bug once more: what is precompiled does not count as a system header.
      target_compile_options(${target} PRIVATE -Wno-array-bounds -Wno-stringop-overflow
        -Wno-stringop-overread)
    endif()
  endif()
  # g++ 12 warns of code that a sanitizer added; the same files are compiled without one.
  if(VRAMLINK_WARNINGS_AS_ERRORS AND VRAMLINK_SANITIZE STREQUAL "")
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

# vramlink_sanitize(<target> [TEST])
# Test code is not checked for undefined behaviour, which would nearly double its time to compile.
function(vramlink_sanitize target)
  cmake_parse_arguments(arg "TEST" "" "" ${ARGN})
  set(flags "")
  if(NOT VRAMLINK_SANITIZE STREQUAL "")
    list(JOIN VRAMLINK_SANITIZE "," names)
    list(APPEND flags "-fsanitize=${names}" -fno-omit-frame-pointer)
    if("undefined" IN_LIST VRAMLINK_SANITIZE)
      # vptr looks at objects through a pipe, and calls them invalid where a test has left no
      # descriptor for one.
      list(APPEND flags -fno-sanitize-recover=all -fno-sanitize=vptr)
    endif()
  endif()
  if(VRAMLINK_FUZZ)
    list(APPEND flags -fsanitize=fuzzer-no-link)
  endif()
  if(flags)
    target_compile_options(${target} PRIVATE ${flags})
    target_link_options(${target} PRIVATE ${flags})
  endif()
  if(arg_TEST AND "undefined" IN_LIST VRAMLINK_SANITIZE)
    target_compile_options(${target} PRIVATE -fno-sanitize=undefined)
  endif()
endfunction()

# vramlink_target_defaults(<target> [STRICT] [TEST]): what every target of ours has.
function(vramlink_target_defaults target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  vramlink_warnings(${target} ${ARGN})
  vramlink_sanitize(${target} ${ARGN})
endfunction()

# vramlink_test_defaults(<target>): what test code has. It is not optimised, which halves the time of
# a build and changes nothing about what is tested. All share the precompiled headers of the target
# test_headers, so all are compiled with the same flags: as an executable is where nobody asks.
function(vramlink_test_defaults target)
  vramlink_target_defaults(${target} TEST)
  set_property(TARGET ${target} PROPERTY POSITION_INDEPENDENT_CODE)
  target_compile_options(${target} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O0>)
  if(target STREQUAL "test_headers")
    target_precompile_headers(${target} PRIVATE <gtest/gtest.h> <vramlink/vramlink.hpp>
      <algorithm> <array> <atomic> <chrono> <cstring> <filesystem> <fstream> <functional> <future>
      <memory> <mutex> <optional> <random> <string> <thread> <vector>)
  else()
    target_precompile_headers(${target} REUSE_FROM test_headers)
  endif()
endfunction()

# vramlink_add_program(<target> <source>...): a program that uses the public headers alone.
function(vramlink_add_program target)
  add_executable(${target} ${ARGN})
  vramlink_target_defaults(${target})
  target_link_libraries(${target} PRIVATE vramlink::vramlink)
endfunction()
