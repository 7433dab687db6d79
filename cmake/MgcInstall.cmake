# Installation by components, and the Debian packages that CPack makes of them (scripts/package): docs/packages.md.
#   runtime   package mgc-runtime: runs plans, prepares data; needs no LLVM
#   compiler  package mgc: compiles models, with the examples and the documentation
# The target mgc_installed is all that is built for them. A plugin lies where runtime/device/PluginFile.cpp looks for it.
set(programs_runtime mgrun mgc-data)
set(programs_compiler mgc mgc-translate mg-opt)
set(plugins mgc_cuda)
foreach(kind ${MGC_MPI_KINDS})
  list(APPEND plugins mgc_mpi_${kind})
endforeach()

add_custom_target(mgc_installed)
# mgc_install(COMPONENT KIND DESTINATION TARGET..): those of the targets that there are.
function(mgc_install component kind destination)
  foreach(target ${ARGN})
    if(TARGET ${target})
      install(TARGETS ${target} ${kind} DESTINATION ${destination} COMPONENT ${component})
      add_dependencies(mgc_installed ${target})
    endif()
  endforeach()
endfunction()
mgc_install(runtime RUNTIME bin ${programs_runtime})
mgc_install(runtime LIBRARY lib/mgc ${plugins})
mgc_install(compiler RUNTIME bin ${programs_compiler})

install(DIRECTORY examples/cluster DESTINATION share/mgc/examples COMPONENT runtime USE_SOURCE_PERMISSIONS)
install(FILES docs/run-options.md docs/several-machines.md docs/cluster.md DESTINATION share/doc/mgc-runtime COMPONENT runtime)
set(CPACK_COMPONENTS_ALL runtime)
if(NOT MGC_RUNTIME_ONLY)
  list(APPEND CPACK_COMPONENTS_ALL compiler)
  install(DIRECTORY examples DESTINATION share/mgc COMPONENT compiler PATTERN cluster EXCLUDE)
  install(FILES README.md DESTINATION share/doc/mgc COMPONENT compiler)
  install(DIRECTORY docs DESTINATION share/doc/mgc COMPONENT compiler)
  # Links of the documentation lead to the examples, and the README's commands find both in one folder.
  file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/installed")
  file(CREATE_LINK ../../mgc/examples "${CMAKE_CURRENT_BINARY_DIR}/installed/examples" SYMBOLIC)
  install(FILES "${CMAKE_CURRENT_BINARY_DIR}/installed/examples" DESTINATION share/doc/mgc COMPONENT compiler)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PACKAGE_CONTACT "mgc maintainers <mgc@example.com>")
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/PackageDepends.cmake")
set(CPACK_MGC_LLVM "${LLVM_VERSION_MAJOR}") # for PackageDepends.cmake
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME mgc-runtime)
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "runtime for training transformers on many devices
mgrun trains by a plan that mgc has compiled: on CPUs, or by a plugin on GPUs,
in one process or in one for each rank, which an MPI or torchrun starts.
mgc-data makes token ids of texts.")
# An MPI is opened when its launcher has started mgrun: no dependency, and the plugin for another is not missed.
if(openmpi IN_LIST MGC_MPI_KINDS)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS openmpi-bin)
endif()
if(mpich IN_LIST MGC_MPI_KINDS)
  set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS mpich)
endif()
set(CPACK_COMPONENT_COMPILER_DEPENDS runtime)
set(CPACK_DEBIAN_COMPILER_PACKAGE_NAME mgc)
set(CPACK_DEBIAN_COMPILER_DESCRIPTION "graph compiler for training transformers on many devices
mgc compiles a model (a Hugging Face config.json) and a layout to a plan: what
every rank computes, sends, receives and stores, decided and checked before
anything runs. mgrun of mgc-runtime runs the plan.")
include(CPack)
