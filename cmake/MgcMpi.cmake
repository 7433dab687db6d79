# MPI, for the plugins built with it (runtime/comm/mpi/plugin). Nothing else links it.
#   MGC_MPI        ON: each kind that is found; OFF; REQUIRED: an error where none is found
#   MGC_MPICC      compilers to look for, by name or path; of each kind the first that works
#   MGC_MPI_KINDS  what was found, of openmpi and mpich; for each an interface target mgc_mpi_headers_KIND, and
#                  MGC_MPIRUN_KIND, its launcher with the flags that tests need, empty where there is none; MGC_MPIRUN is that
#                  of one of them
set(MGC_MPI ON CACHE STRING "Build the plugins for MPI: ON where it is found, OFF, REQUIRED")
set(MGC_MPICC "mpicc;mpicc.openmpi;mpicc.mpich" CACHE STRING "MPI's compilers; of each kind the first counts")
set(MGC_MPI_KINDS "")
set(MGC_MPIRUN "")
# Processes have time to say why they end before they are killed, on busy machines too; Open MPI's mpirun always takes all of it.
set(mpirun_flags_openmpi --allow-run-as-root --oversubscribe --mca odls_base_sigkill_timeout 3)
set(mpirun_flags_mpich -disable-auto-cleanup)
if(NOT MGC_MPI)
  return()
endif()

# Sets `out` to the words of the compiler's command line that begin with `letter`, without it.
function(mgc_mpi_words out line letter)
  string(REGEX MATCHALL "(^| )-${letter}[^ ]+" words "${line}")
  list(TRANSFORM words REPLACE "^ ?-${letter}" "")
  list(REMOVE_DUPLICATES words)
  set(${out} "${words}" PARENT_SCOPE)
endfunction()

foreach(name ${MGC_MPICC})
  find_program(mpicc_path "${name}" NO_CACHE)
  if(mpicc_path)
    execute_process(COMMAND "${mpicc_path}" -E -dM -include mpi.h -x c /dev/null OUTPUT_VARIABLE macros ERROR_QUIET)
    execute_process(COMMAND "${mpicc_path}" -show OUTPUT_VARIABLE line ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(kind "")
    if(macros MATCHES "define OPEN_MPI ")
      set(kind openmpi)
    elseif(macros MATCHES "define MPICH_VERSION ")
      set(kind mpich)
    endif()
    if(kind AND NOT kind IN_LIST MGC_MPI_KINDS)
      list(APPEND MGC_MPI_KINDS ${kind})
      mgc_mpi_words(includes "${line}" I)
      mgc_mpi_words(folders "${line}" L)
      mgc_mpi_words(libraries "${line}" l)
      add_library(mgc_mpi_headers_${kind} INTERFACE)
      target_include_directories(mgc_mpi_headers_${kind} SYSTEM INTERFACE ${includes})
      target_link_directories(mgc_mpi_headers_${kind} INTERFACE ${folders})
      target_link_libraries(mgc_mpi_headers_${kind} INTERFACE ${libraries})
      # Beside the compiler, by a name that says the kind where a system has both.
      file(REAL_PATH "${mpicc_path}" real)
      cmake_path(GET real PARENT_PATH beside)
      find_program(mpirun_path NAMES mpirun.${kind} mpirun HINTS "${beside}" NO_CACHE)
      if(mpirun_path)
        set(MGC_MPIRUN_${kind} "${mpirun_path}" ${mpirun_flags_${kind}})
        set(MGC_MPIRUN "${MGC_MPIRUN_${kind}}")
      endif()
      unset(mpirun_path)
      message(STATUS "MPI: ${kind} by ${mpicc_path}")
    endif()
  endif()
  unset(mpicc_path)
endforeach()
if(NOT MGC_MPI_KINDS)
  string(CONCAT message "MPI: none of ${MGC_MPICC} compiles with Open MPI or MPICH: the plugins for MPI are not built, CPU ranks "
    "are threads of one process")
  if(MGC_MPI STREQUAL REQUIRED)
    message(FATAL_ERROR "${message}")
  endif()
  message(STATUS "${message}")
endif()

# mgc_mpi_test(NAME KIND RANKS COMMAND..): a ctest test of so many processes of the MPI.
function(mgc_mpi_test name kind ranks)
  mgc_test(${name} CORES ${ranks} USES runtime/comm/mpi COMMAND ${MGC_MPIRUN_${kind}} -n ${ranks} ${ARGN})
endfunction()
