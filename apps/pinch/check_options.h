// What the subcommands of pinch check share.
#pragma once

#include <string>

#include "apps/pinch/cli.h"
#include "workbench/check/program.h"

namespace pinch::cli {

struct ProgramOptions {
  check::Program program;
  void add_to(CLI::App& command, const std::string& what = "The program and its arguments, after --",
              bool required = true) {
    command.add_option("--inputs", program.inputs, "Folder of saved inputs, given to the program as PINCH_INPUTS")
        ->check(CLI::ExistingDirectory)
        ->type_name("FOLDER");
    command.add_option("--timeout", program.timeout_s, "Seconds until a run is ended")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    command.add_option("command", program.argv, what)->required(required)->type_name("CMD");
  }
};

/// Prints the text, writes the document; `status` where that went well.
int finish_check(const JsonOption& json, const nlohmann::ordered_json& document, const std::string& text, int status);

void add_check_compare(CLI::App& check, int& status);

}  // namespace pinch::cli
