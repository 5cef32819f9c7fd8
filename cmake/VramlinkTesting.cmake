# Functions that register tests. A test folder is a label; its tests are counted one by one.
include(GoogleTest)

# vramlink_add_tests(<label> TIMEOUT <seconds> [FILTER <names>] [TOGETHER] SOURCES <file>...)
# Makes <label>_tests, one GoogleTest program over the library's objects, and registers every test
# of it. Without sources it makes nothing. TOGETHER is for tests that do little: with the sanitizer of
# addresses, with which a process takes long to start and to end, they run in a few processes. Not
# with that of threads, which knows no threads in the child of a process that has some.
function(vramlink_add_tests label)
  cmake_parse_arguments(arg "RUN_SERIAL;TOGETHER" "TIMEOUT;FILTER" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT arg_SOURCES)
    return()
  endif()
  set(target ${label}_tests)
  add_executable(${target} ${arg_SOURCES})
  vramlink_test_defaults(${target})
  target_link_libraries(${target} PRIVATE test_support vramlink_objects ${arg_LIBRARIES}
    GTest::gtest_main)
  set(properties LABELS ${label})
  if(arg_TIMEOUT)
    list(APPEND properties TIMEOUT ${arg_TIMEOUT})
  endif()
  if(arg_RUN_SERIAL)
    list(APPEND properties RUN_SERIAL ON)
  endif()
  if(arg_TOGETHER AND "address" IN_LIST VRAMLINK_SANITIZE)
    vramlink_add_shards(${label} ${target} 8)
    return()
  endif()
  gtest_discover_tests(${target}
    TEST_PREFIX "${label}."
    TEST_FILTER "${arg_FILTER}"
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES ${properties})
endfunction()

# vramlink_add_shards(<label> <target> <count>)
# Registers the tests of a program as so many tests of ctest, each with its share of them. What
# became of these is in an XML file of that name, for tools/test_report.py.
function(vramlink_add_shards label target count)
  math(EXPR last "${count} - 1")
  foreach(shard RANGE ${last})
    set(name "${label}.shard${shard}")
    add_test(NAME ${name} COMMAND ${target}
      "--gtest_output=xml:${PROJECT_BINARY_DIR}/gtest/${name}.xml")
    set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 300
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${count};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

# vramlink_add_gpu_tests(<name> TIMEOUT <seconds> SOURCES <file>...)
# Makes <name>_tests and registers every test of it three times, each in a process of its own: with
# the label simcuda on the stand-in driver with two devices and with one, and with the label gpu on
# the driver of the system, where a test skips itself if there is none.
function(vramlink_add_gpu_tests name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES" ${ARGN})
  set(target ${name}_tests)
  add_executable(${target} ${arg_SOURCES})
  vramlink_test_defaults(${target})
  target_link_libraries(${target} PRIVATE test_support vramlink_objects GTest::gtest_main)
  set_property(GLOBAL APPEND PROPERTY VRAMLINK_GPU_CHECK_TARGETS ${target})
  set(common DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)
  if(NOT VRAMLINK_SANITIZE)
    gtest_discover_tests(${target} TEST_PREFIX "gpu.${name}." ${common}
      PROPERTIES LABELS gpu TIMEOUT ${arg_TIMEOUT} RESOURCE_LOCK gpu)
  endif()
  if(TARGET simcuda)
    add_dependencies(${target} simcuda)
    gtest_discover_tests(${target} TEST_PREFIX "simcuda.${name}." ${common}
      PROPERTIES LABELS simcuda TIMEOUT ${arg_TIMEOUT}
        ENVIRONMENT "VRAMLINK_CUDA_LIBRARY=$<TARGET_FILE:simcuda>")
    gtest_discover_tests(${target} TEST_PREFIX "simcuda1.${name}." ${common}
      PROPERTIES LABELS simcuda TIMEOUT ${arg_TIMEOUT}
        ENVIRONMENT "VRAMLINK_CUDA_LIBRARY=$<TARGET_FILE:simcuda>"
        ENVIRONMENT_MODIFICATION "VRAMLINK_SIMCUDA_DEVICES=set:1")
  endif()
endfunction()

# vramlink_add_device_tests(<label> TIMEOUT <seconds> FILTER <names>)
# Registers tests of <label>_tests, which vramlink_add_tests() made, twice more: with the label
# simcuda on a device of the stand-in driver, and with the label gpu on the first GPU of the system.
function(vramlink_add_device_tests label)
  cmake_parse_arguments(arg "" "TIMEOUT;FILTER" "" ${ARGN})
  set_property(GLOBAL APPEND PROPERTY VRAMLINK_GPU_CHECK_TARGETS ${label}_tests)
  set(common TEST_FILTER "${arg_FILTER}" DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60)
  if(NOT VRAMLINK_SANITIZE)  # the driver's own threads and mappings are not instrumented
    gtest_discover_tests(${label}_tests TEST_PREFIX "gpu.${label}." ${common}
      PROPERTIES LABELS gpu TIMEOUT ${arg_TIMEOUT} RESOURCE_LOCK gpu
        ENVIRONMENT "VRAMLINK_TEST_DEVICE=gpu")
  endif()
  if(TARGET simcuda)
    add_dependencies(${label}_tests simcuda)
    gtest_discover_tests(${label}_tests TEST_PREFIX "simcuda.${label}." ${common}
      PROPERTIES LABELS simcuda TIMEOUT ${arg_TIMEOUT}
        ENVIRONMENT "VRAMLINK_TEST_DEVICE=$<TARGET_FILE:simcuda>")
  endif()
endfunction()

# vramlink_add_python_tests(<label> TIMEOUT <seconds> ENVIRONMENT <name=value>... SOURCES <file>...)
# Each file is a program that ends with 0 (passed), 77 (skipped; its last line says why) or another
# code (failed).
function(vramlink_add_python_tests label)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;ENVIRONMENT" ${ARGN})
  foreach(source IN LISTS arg_SOURCES)
    get_filename_component(name "${source}" NAME_WE)
    string(REGEX REPLACE "^test_" "" name "${name}")
    add_test(NAME ${label}.${name}
      COMMAND Python3::Interpreter -B "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
    set_tests_properties(${label}.${name} PROPERTIES
      LABELS ${label}
      SKIP_RETURN_CODE 77
      ENVIRONMENT "${arg_ENVIRONMENT}")
    if(arg_TIMEOUT)
      set_tests_properties(${label}.${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
    endif()
  endforeach()
endfunction()

# vramlink_add_run_test(<label> <name> <command> [<argument>...]): a program that must end with 0; 77
# is a skip, and its line "skipped: WHY" gives the reason.
function(vramlink_add_run_test label name)
  add_test(NAME ${label}.${name} COMMAND ${ARGN})
  set_tests_properties(${label}.${name} PROPERTIES
    LABELS ${label}
    SKIP_RETURN_CODE 77
    TIMEOUT 120)
endfunction()

# vramlink_add_misuse_test(<source>): the source must compile without -DVRAMLINK_MISUSE and must
# not compile with it.
function(vramlink_add_misuse_test source)
  get_filename_component(name "${source}" NAME_WE)
  set(flags -std=c++20 -fsyntax-only "-I${PROJECT_SOURCE_DIR}/include" "-I${PROJECT_SOURCE_DIR}/src")
  set(file "${CMAKE_CURRENT_SOURCE_DIR}/${source}")
  add_test(NAME unit.compiles.${name} COMMAND ${CMAKE_CXX_COMPILER} ${flags} "${file}")
  add_test(NAME unit.refuses.${name}
    COMMAND ${CMAKE_CXX_COMPILER} ${flags} -Werror=unused-result -DVRAMLINK_MISUSE "${file}")
  set_tests_properties(unit.refuses.${name} PROPERTIES WILL_FAIL ON)
  set_tests_properties(unit.compiles.${name} unit.refuses.${name} PROPERTIES LABELS unit)
endfunction()

# vramlink_add_fuzzer(<name> <source>...)
# The sources define LLVMFuzzerTestOneInput. With VRAMLINK_FUZZ they become a libFuzzer program that
# runs for VRAMLINK_FUZZ_SECONDS; without it, a program that replays corpus/<name>/ and a fixed
# number of changed copies of it, so that every compiler runs the same code.
function(vramlink_add_fuzzer name)
  set(target fuzz_${name})
  add_executable(${target} ${ARGN})
  vramlink_target_defaults(${target})
  target_link_libraries(${target} PRIVATE vramlink_objects)
  set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}")
  if(VRAMLINK_FUZZ)
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    set(found "${CMAKE_CURRENT_BINARY_DIR}/corpus/${name}")
    file(MAKE_DIRECTORY "${found}")
    set(arguments -max_total_time=${VRAMLINK_FUZZ_SECONDS} -timeout=10 -rss_limit_mb=4096
      -print_final_stats=1 "${found}")
    if(IS_DIRECTORY "${corpus}")
      list(APPEND arguments "${corpus}")
    endif()
    add_test(NAME fuzz.${name} COMMAND ${target} ${arguments})
    math(EXPR limit "${VRAMLINK_FUZZ_SECONDS} * 2 + 120")
  else()
    target_sources(${target} PRIVATE "${VRAMLINK_REPLAY_MAIN}")
    add_test(NAME fuzz.${name}.replay COMMAND ${target} "${corpus}")
    set(limit 120)
  endif()
  get_property(tests DIRECTORY PROPERTY TESTS)
  list(GET tests -1 test)
  set_tests_properties(${test} PROPERTIES LABELS fuzz TIMEOUT ${limit})
endfunction()
