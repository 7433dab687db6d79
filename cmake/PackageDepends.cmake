# CPack runs this between installing and packing: the packages of the shared libraries that each component needs, by dpkg-shlibdeps.
# CPack's own call of it would count the libraries of every MPI, which only the plugins for MPI need.
find_program(shlibdeps dpkg-shlibdeps)
if(NOT shlibdeps)
  message(FATAL_ERROR "no dpkg-shlibdeps; install dpkg-dev (scripts/setup does)")
endif()
foreach(component ${CPACK_COMPONENTS_ALL})
  set(folder "${CPACK_TEMPORARY_DIRECTORY}/${component}")
  file(GLOB files RELATIVE "${folder}" "${folder}/usr/bin/*" "${folder}/usr/lib/mgc/*.so")
  list(FILTER files EXCLUDE REGEX libmgc_mpi_)
  file(WRITE "${folder}/debian/control" "") # dpkg-shlibdeps does not run without
  # Said once more, since LLVM's development package has links to this library, of which dpkg-shlibdeps may take one, and finds nothing there.
  execute_process(COMMAND dpkg-query --control-show "libllvm${CPACK_MGC_LLVM}" shlibs OUTPUT_FILE "${folder}/debian/shlibs.local" ERROR_QUIET)
  execute_process(COMMAND "${shlibdeps}" -O ${files} WORKING_DIRECTORY "${folder}" OUTPUT_VARIABLE depends ERROR_VARIABLE errors
    RESULT_VARIABLE result OUTPUT_STRIP_TRAILING_WHITESPACE)
  file(REMOVE_RECURSE "${folder}/debian")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "dpkg-shlibdeps: ${errors}")
  endif()
  string(REGEX REPLACE "^.*shlibs:Depends=" "" depends "${depends}")
  string(TOUPPER "${component}" upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${depends}")
endforeach()
