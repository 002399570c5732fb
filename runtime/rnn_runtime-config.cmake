# For CMake's find_package(rnn_runtime); lies beside the library and its header.
#
#   target_link_libraries(program PRIVATE rnn_runtime::rnn_runtime)
#
# rnn_runtime::rnn_runtime_static becomes part of the program.
if(NOT TARGET rnn_runtime::rnn_runtime)
  add_library(rnn_runtime::rnn_runtime SHARED IMPORTED)
  set_target_properties(
    rnn_runtime::rnn_runtime
    PROPERTIES IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/librnn_runtime.so"
               IMPORTED_SONAME librnn_runtime.so
               INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}")
  add_library(rnn_runtime::rnn_runtime_static STATIC IMPORTED)
  set_target_properties(
    rnn_runtime::rnn_runtime_static
    PROPERTIES IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/librnn_runtime.a"
               INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}"
               INTERFACE_LINK_LIBRARIES "stdc++;m;pthread")
endif()
