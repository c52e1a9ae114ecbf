# pinch_embed(TARGET NAME FILE): makes the text of FILE the constant `pinch::embedded::NAME` of "embedded/NAME.h", so that
# data ships inside the library and is edited as data. Rebuilt when FILE changes.
set(pinch_embed_script ${CMAKE_CURRENT_LIST_DIR}/embed_text.cmake)
function(pinch_embed target name file)
  get_filename_component(input ${file} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
  set(header ${PROJECT_BINARY_DIR}/generated/embedded/${name}.h)
  file(RELATIVE_PATH shown ${PROJECT_SOURCE_DIR} ${input})
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DINPUT=${input} -DSHOWN=${shown} -DOUTPUT=${header} -P ${pinch_embed_script}
    DEPENDS ${input} ${pinch_embed_script} COMMENT "Embedding ${shown}" VERBATIM)
  target_sources(${target} PRIVATE ${header})
endfunction()
