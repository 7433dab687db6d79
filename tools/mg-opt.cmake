if(TARGET mgc_compiler)
  add_executable(mg-opt mg-opt.cpp)
  target_link_libraries(mg-opt PRIVATE mgc_compiler)
endif()
