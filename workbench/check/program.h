// A program under check: run on saved inputs, known by the hashes of what it leaves in PINCH_OUTPUTS.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pinch/result.h"

namespace pinch::check {

struct Program {
  std::vector<std::string> argv;
  std::string inputs;  ///< folder given as PINCH_INPUTS; empty: none
  std::vector<std::pair<std::string, std::string>> environment;
  double timeout_s = 60;
  std::string stdout_file;  ///< where all of its stdout is kept; empty: nowhere
};

struct ProgramRun {
  bool ended_well = false;
  std::string ending;  ///< "exited with 0", "killed by SIGSEGV", ...
  std::string err;     ///< the last 4 KiB of stderr
  std::map<std::string, std::string>
      outputs;  ///< file within PINCH_OUTPUTS, or "stdout" where there is none, to SHA-256

  /// One text for the whole result: equal for runs that ended alike with equal outputs.
  [[nodiscard]] std::string identity() const;
};

/// Runs the program with an empty folder `outputs` for PINCH_OUTPUTS, whose contents stay. Errors: kInterrupted; kIo
/// for the folder; those of starting a process.
Result<ProgramRun> run_program(const Program& program, const std::string& outputs,
                               const std::function<bool()>& stop_requested = {});

/// Runs it once and leaves FOLDER/outputs and FOLDER/manifest.json. Stdout is kept as the output "stdout" where it left
/// no file. The manifest holds the command, its outputs and inputs with their hashes, the program file's hash, the
/// machine (environment.h) and the variables. It is made beside FOLDER and takes its place whole, so an earlier
/// recording there stays until this one is done. Errors: those of run_program; kIllegal where the program failed;
/// kInvalidArgument where FOLDER holds anything else than a recording.
Result<nlohmann::ordered_json> record(const Program& program, const std::string& folder,
                                      const std::function<bool()>& stop_requested = {});

/// The file that argv[0] of a command run in `folder` names, found in PATH unless it holds a '/'. Empty: there is none.
std::string program_file(const std::string& name, const std::string& folder = {});

/// SHA-256 of every file under a folder, by its relative path; empty for an empty path. Errors: kNotFound, kIo.
Result<std::map<std::string, std::string>> hash_folder(const std::string& folder);

}  // namespace pinch::check
