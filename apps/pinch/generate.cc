// pinch generate: the man page and the shell completion, from the commands as they are defined.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "apps/pinch/cli.h"
#include "pinch/version.h"

namespace pinch::cli {
namespace {

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  auto all = app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); });
  return {all.begin(), all.end()};
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  auto all = app.get_options([](const CLI::Option* each) { return !each->get_group().empty(); });
  return {all.begin(), all.end()};
}

void walk(const CLI::App& app, const std::string& path,
          const std::function<void(const CLI::App&, const std::string& path)>& visit) {
  visit(app, path);
  for (const CLI::App* command : commands_of(app))
    walk(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), visit);
}

// --- man

// A text as roff takes it: no escapes, hyphens that can be copied, no line that looks like a request.
std::string roff(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (safe.empty() || safe.back() == '\n')) safe += "\\&";
    if (c == '\\') {
      safe += "\\e";
    } else if (c == '-') {
      safe += "\\-";
    } else {
      safe += c;
    }
  }
  return safe;
}

// "--m INT", "spec FILE"
std::string option_text(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) names += (names.empty() ? "--" : ", --") + name;
  const std::string type = option.get_type_size() == 0 ? "" : option.get_type_name();
  if (names.empty()) names = option.get_name(/*positional=*/true);
  return names + (type.empty() ? "" : " " + type);
}

std::string man_page(const CLI::App& app) {
  std::string text = fmt::format(
      ".TH PINCH 1 \"\" \"pinch {}\" \"User Commands\"\n.SH NAME\npinch \\- {}\n.SH SYNOPSIS\n.B pinch\n.I "
      "COMMAND\n[\\fIOPTIONS\\fR]\n"
      ".SH COMMANDS\n",
      version(), roff(app.get_description()));
  walk(app, "", [&](const CLI::App& command, const std::string& path) {
    if (path.empty()) return;
    text += fmt::format(".SS \"pinch {}\"\n{}\n", roff(path), roff(command.get_description()));
    for (const CLI::Option* option : options_of(command)) {
      if (option->check_name("--help")) continue;
      text += fmt::format(".TP\n.B \"{}\"\n{}{}\n", roff(option_text(*option)), roff(option->get_description()),
                          option->get_required() ? " (required)" : "");
    }
    if (!command.get_footer().empty() && command.get_footer() != app.get_footer())
      text += fmt::format(".PP\n.nf\n{}\n.fi\n", roff(command.get_footer()));
  });
  text +=
      ".SH \"EXIT STATUS\"\n.TP\n0\nok\n.TP\n1\na check or gate failed\n.TP\n2\nusage\n.TP\n3\nenvironment: no GPU, no "
      "tool, no "
      "permission\n.TP\n130\ninterrupted; what there is was reported\n"
      ".SH ENVIRONMENT\n.TP\nPINCH_DB\nThe SQLite file of results; else in $XDG_CACHE_HOME/pinch or ~/.cache/pinch\n"
      ".TP\nPINCH_CPU\nThe one instruction set that the CPU kernels may use, as in avx2\n";
  return text;
}

// --- completion

// "{a,b}" of a type that is one of a few words.
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{'), close = type.rfind('}');
  std::vector<std::string> words;
  if (open == std::string::npos || close == std::string::npos || close < open) return words;
  std::string word;
  for (const char c : type.substr(open + 1, close - open - 1) + ",") {
    if (c != ',') {
      word += c;
    } else {
      words.push_back(std::exchange(word, ""));
    }
  }
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string bash_completion(const CLI::App& app) {
  std::string paths, words, values;
  walk(app, "", [&](const CLI::App& command, const std::string& path) {
    if (!path.empty()) paths += (paths.empty() ? "" : "|") + fmt::format("\"{}\"", path);
    std::vector<std::string> offered;
    for (const CLI::App* each : commands_of(command)) offered.push_back(each->get_name());
    for (const CLI::Option* option : options_of(command)) {
      for (const std::string& name : option->get_lnames()) {
        offered.push_back("--" + name);
        const auto choices = choices_of(*option);
        if (!choices.empty()) values += fmt::format("    \"{} --{}\") words=\"{}\" ;;\n", path, name, joined(choices));
      }
    }
    words += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, joined(offered));
  });
  return fmt::format(R"(# Completion of pinch for bash; zsh takes it after: autoload -U bashcompinit && bashcompinit
_pinch() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} path="" words="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
    [ "$word" = -- ] && return
    case "${{path:+$path }}$word" in
    {}) path=${{path:+$path }}$word ;;
    esac
  done
  case "$path" in
{}  esac
  case "$path $previous" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _pinch pinch
)",
                     paths, words, values);
}

}  // namespace

void add_generate(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("generate", "Print the man page or a shell completion");
  command->group("");  // for packagers; not listed
  command->require_subcommand(1);
  const auto add = [&](const char* name, const char* about, std::string (*make)(const CLI::App&)) {
    command->add_subcommand(name, about)->callback([&app, &status, make] {
      fmt::print("{}", make(app));
      status = kOk;
    });
  };
  add("man", "The man page, in roff", man_page);
  add("bash", "Completion for bash", bash_completion);
}

}  // namespace pinch::cli
