# cmake -DSOURCE=DIR -DHEADER=FILE -P WriteCommit.cmake: the commit of the tree as `#define MGC_COMMIT
# "0123456789ab-dirty"`. Writes the file only where that changed, so that nothing is rebuilt for it.
set(commit unknown)
execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --exclude=* --abbrev=12 OUTPUT_VARIABLE described
  RESULT_VARIABLE result ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(result EQUAL 0)
  set(commit "${described}")
endif()
set(text "#define MGC_COMMIT \"${commit}\"\n")
if(EXISTS "${HEADER}")
  file(READ "${HEADER}" before)
endif()
if(NOT text STREQUAL before)
  file(WRITE "${HEADER}" "${text}")
endif()
