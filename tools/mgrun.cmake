find_package(CLI11 REQUIRED)
add_executable(mgrun mgrun.cpp RunScreen.cpp)
target_link_libraries(mgrun PRIVATE mgc_process mgc_exec CLI11::CLI11)
