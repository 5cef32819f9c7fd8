# The options of the build, and which of its parts they switch on.
#
# A part whose dependencies decide takes AUTO, ON or OFF: AUTO builds it where everything is found,
# ON makes a missing dependency an error. The answers are VRAMLINK_WITH_<PART> and a reason.

set(_top_level_on OFF)
set(_top_level_auto OFF)
if(PROJECT_IS_TOP_LEVEL)
  set(_top_level_on ON)
  set(_top_level_auto AUTO)
  option(BUILD_SHARED_LIBS "Build vramlink as a shared library" ON)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
  # Off but in the presets of those who work on it: another compiler may warn of more.
  option(VRAMLINK_WARNINGS_AS_ERRORS "Stop at a compiler's warning" OFF)
  # Off, so that a missing #include is noticed. The presets that are built for their tests turn them
  # on; the library is compiled without them too, for the tests of what is installed.
  option(CMAKE_DISABLE_PRECOMPILE_HEADERS "Compile without precompiled headers" ON)
  if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    find_program(VRAMLINK_CCACHE ccache)
    mark_as_advanced(VRAMLINK_CCACHE)
    if(VRAMLINK_CCACHE)
      # Without this it caches nothing that uses a precompiled header.
      set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
        CCACHE_SLOPPINESS=pch_defines,time_macros "${VRAMLINK_CCACHE}")
    endif()
  endif()
endif()

set(VRAMLINK_BUILD_TESTS ${_top_level_auto} CACHE STRING "Build the tests: AUTO, ON or OFF")
set(VRAMLINK_BUILD_BENCH ${_top_level_auto} CACHE STRING "Build the benchmarks: AUTO, ON or OFF")
set(VRAMLINK_BUILD_CLI ${_top_level_auto} CACHE STRING "Build the command vramlink: AUTO, ON or OFF")
set(VRAMLINK_BUILD_EXAMPLES ${_top_level_auto} CACHE STRING "Build the examples: AUTO, ON or OFF")
foreach(part IN ITEMS TESTS BENCH CLI EXAMPLES)
  set_property(CACHE VRAMLINK_BUILD_${part} PROPERTY STRINGS AUTO ON OFF)
endforeach()
option(VRAMLINK_INSTALL "Make install rules" ${_top_level_on})
option(VRAMLINK_LONG_TESTS "Run the crash loops and the model at their full length" OFF)
option(VRAMLINK_FUZZ "Instrument everything for libFuzzer (needs clang)" OFF)
set(VRAMLINK_FUZZ_SECONDS 10 CACHE STRING "Seconds that each fuzzer runs under ctest")
option(VRAMLINK_COVERAGE "Count the lines that run of channels and of the CUDA back end" OFF)
set(VRAMLINK_SANITIZE "" CACHE STRING "Sanitizers: empty, address;undefined or thread")

# vramlink_need(<part> <dependency text> <variable that is true when it was found>)
# Collects what a part lacks, in VRAMLINK_LACKS_<part>.
macro(vramlink_need part text found)
  if(NOT ${found})
    list(APPEND VRAMLINK_LACKS_${part} "${text}")
  endif()
endmacro()

# vramlink_decide(<part>) sets VRAMLINK_WITH_<part> and VRAMLINK_REASON_<part>.
macro(vramlink_decide part)
  set(VRAMLINK_WITH_${part} ON)
  set(VRAMLINK_REASON_${part} "")
  list(JOIN VRAMLINK_LACKS_${part} ", " _lacks)
  if(VRAMLINK_BUILD_${part} STREQUAL "AUTO")
    if(NOT _lacks STREQUAL "")
      set(VRAMLINK_WITH_${part} OFF)
      set(VRAMLINK_REASON_${part} "not found: ${_lacks}")
    endif()
  elseif(VRAMLINK_BUILD_${part})
    if(NOT _lacks STREQUAL "")
      message(FATAL_ERROR "VRAMLINK_BUILD_${part} is ON, but these were not found: ${_lacks}")
    endif()
  else()
    set(VRAMLINK_WITH_${part} OFF)
    set(VRAMLINK_REASON_${part} "VRAMLINK_BUILD_${part} is ${VRAMLINK_BUILD_${part}}")
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

if(VRAMLINK_BUILD_CLI)
  find_package(CLI11 QUIET CONFIG)
  find_package(nlohmann_json QUIET CONFIG)
  find_package(PNG QUIET)
  vramlink_need(CLI "CLI11 (libcli11-dev)" CLI11_FOUND)
  vramlink_need(CLI "nlohmann/json (nlohmann-json3-dev)" nlohmann_json_FOUND)
  vramlink_need(CLI "libpng (libpng-dev)" PNG_FOUND)
endif()
vramlink_decide(CLI)

if(VRAMLINK_BUILD_TESTS)
  find_package(GTest QUIET)
  find_package(Python3 3.10 QUIET COMPONENTS Interpreter)
  vramlink_need(TESTS "GoogleTest (libgtest-dev)" GTest_FOUND)
  vramlink_need(TESTS "Python 3.10 or newer (python3)" Python3_Interpreter_FOUND)
endif()
vramlink_decide(TESTS)

vramlink_decide(EXAMPLES)

if(VRAMLINK_BUILD_BENCH)
  find_package(benchmark QUIET)
  find_package(nlohmann_json QUIET)
  vramlink_need(BENCH "Google Benchmark (libbenchmark-dev)" benchmark_FOUND)
  vramlink_need(BENCH "nlohmann-json (nlohmann-json3-dev)" nlohmann_json_FOUND)
endif()
vramlink_decide(BENCH)

# Named steps are places where a test can stop or kill a process. They cost a branch each, so a
# library that is built without tests does not have them.
if(NOT DEFINED VRAMLINK_STEPS)
  set(VRAMLINK_STEPS ${VRAMLINK_WITH_TESTS} CACHE BOOL "Compile in the named steps that tests use")
endif()

if(VRAMLINK_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  message(FATAL_ERROR "VRAMLINK_FUZZ needs clang; this compiler is ${CMAKE_CXX_COMPILER_ID}")
endif()

function(vramlink_print_summary)
  if(NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()
  set(kind "static")
  if(BUILD_SHARED_LIBS)
    set(kind "shared")
  endif()
  set(sanitizers "none")
  if(NOT VRAMLINK_SANITIZE STREQUAL "")
    list(JOIN VRAMLINK_SANITIZE ", " sanitizers)
  endif()
  message(STATUS "vramlink ${PROJECT_VERSION}: ${kind}, ${CMAKE_BUILD_TYPE}, "
    "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, sanitizers: ${sanitizers}, "
    "named steps: ${VRAMLINK_STEPS}")
  foreach(part IN ITEMS CLI EXAMPLES BENCH TESTS)
    if(VRAMLINK_WITH_${part})
      message(STATUS "  ${part}: yes")
    else()
      message(STATUS "  ${part}: no (${VRAMLINK_REASON_${part}})")
    endif()
  endforeach()
endfunction()
