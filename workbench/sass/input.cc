#include "workbench/sass/input.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <unordered_set>

#include "src/core/file_error.h"
#include "src/core/mapped_file.h"
#include "workbench/sass/elf_reader.h"
#include "workbench/sass/fatbin.h"
#include "workbench/sass/opcode_map.h"
#include "workbench/sass/ptx.h"
#include "workbench/sass/text_reader.h"
#include "workbench/sass/tools.h"

namespace pinch::sass {
namespace {

constexpr std::string_view kAccepted =
    "give a cubin, a fatbin, an object or executable built by nvcc, .ptx, .cu, or text of nvdisasm -c or cuobjdump "
    "--dump-sass";

bool ends_with(std::string_view s, std::string_view end) {
  return s.size() >= end.size() && s.substr(s.size() - end.size()) == end;
}

Bytes bytes_of(const std::string& s) {
  return std::as_bytes(std::span(s.data(), s.size()));
}

// The file in memory once: pages that have been copied are given back.
std::shared_ptr<const std::string> copy_of(const MappedFile& file) {
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  auto copy = std::make_shared<std::string>();
  copy->reserve(file.bytes().size());
  for (Bytes rest = file.bytes(); !rest.empty();) {
    const Bytes piece = rest.first(std::min(kPiece, rest.size()));
    copy->append(reinterpret_cast<const char*>(piece.data()), piece.size());
    file.release(piece);
    rest = rest.subspan(piece.size());
  }
  return copy;
}

// Without the byte-order mark that editors put before UTF-8: one, so that what is odd stays odd.
std::shared_ptr<const std::string> without_mark(std::shared_ptr<const std::string> content) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  return content->starts_with(kMark) ? std::make_shared<const std::string>(content->substr(kMark.size())) : content;
}

// Copies names, operands, branches and lines of the disassembly onto the words read from the cubin.
void adopt_text(std::vector<Kernel>& kernels, Program& text) {
  std::unordered_map<std::string_view, Kernel*> by_name;
  for (Kernel& kernel : text.kernels) by_name[kernel.name] = &kernel;
  for (Kernel& kernel : kernels) {
    const auto found = by_name.find(kernel.name);
    if (found == by_name.end() || found->second->instructions.size() != kernel.instructions.size()) {
      name_opcodes(kernel);
      continue;
    }
    kernel.mnemonics_from = "nvdisasm";
    kernel.files = std::move(found->second->files);
    for (std::size_t i = 0; i < kernel.instructions.size(); ++i) {
      Instruction& into = kernel.instructions[i];
      const Instruction& from = found->second->instructions[i];
      into.mnemonic = from.mnemonic;
      into.operands = from.operands;
      into.target = from.target;
      into.conditional = from.conditional;
      into.marked_spill = from.marked_spill;
      into.line = from.line;
      into.file = from.file;
    }
  }
}

// nvdisasm prints source lines only where it is asked to, and refuses the question for some files.
Result<std::string> disassemble(const std::string& tool, const std::string& cubin_path) {
  auto text = run_tool({tool, "-c", "-hex", "-gi", cubin_path});
  if (text.ok()) return text;
  return run_tool({tool, "-c", "-hex", cubin_path});
}

// What of a program is asked for, and how its code is named.
struct Request {
  std::string disassembler;  // a path; empty: the opcode map
  bool was_asked = false;    // by the user, who is then told where it fails; else the map stands in
  const std::function<bool(std::string_view)>& wants;
};

bool keep_wanted(std::vector<Kernel>& kernels, const Request& request) {
  if (request.wants) std::erase_if(kernels, [&](const Kernel& kernel) { return !request.wants(kernel.name); });
  return !kernels.empty();
}

Result<Program> disassembled(const std::string& tool, const std::string& image, const std::string& name) {
  PINCH_ASSIGN(file, TemporaryFile::create(image));
  PINCH_ASSIGN(printed, disassemble(tool, file.path()));
  return read_sass_text(std::make_shared<const std::string>(std::move(printed)), name);
}

Result<void> add_cubin(Program& program, const std::shared_ptr<const std::string>& image, const std::string& name,
                       const Request& request) {
  PINCH_ASSIGN(kernels, read_cubin(bytes_of(*image), name));
  program.has_code |= !kernels.empty();
  if (!keep_wanted(kernels, request)) return {};
  program.texts.push_back(image);  // which files of source lines are named in
  bool named = false;
  if (!request.disassembler.empty()) {
    auto text = disassembled(request.disassembler, *image, name);
    named = text.ok();
    if (named) {
      adopt_text(kernels, *text);
      program.texts.insert(program.texts.end(), text->texts.begin(), text->texts.end());
    } else if (request.was_asked) {
      return Error{text.error().code,
                   fmt::format("cannot be disassembled: {}; --disassembler none names opcodes by the built-in map",
                               text.error().message()),
                   name};
    } else {
      program.notes.push_back(fmt::format("{}: names are from the opcode map, since it cannot be disassembled: {}",
                                          name, text.error().message()));
    }
  }
  if (!named) {
    for (Kernel& kernel : kernels) name_opcodes(kernel);
  }
  std::move(kernels.begin(), kernels.end(), std::back_inserter(program.kernels));
  return {};
}

void add_ptx(Program& program, const std::shared_ptr<const std::string>& text) {
  program.ptx.push_back({ptx_target(*text), text});
}

// A library holds the same PTX once for each architecture that it was compiled for.
void drop_repeated_ptx(Program& program) {
  std::unordered_set<std::string_view> seen;
  std::erase_if(program.ptx, [&](const PtxText& ptx) { return !seen.insert(*ptx.text).second; });
}

Result<void> add_fatbin(Program& program, Bytes bytes, const std::string& name, const Request& request) {
  PINCH_ASSIGN(entries, read_fatbins(bytes, name));
  for (const FatbinEntry& entry : entries) {
    if (entry.kind == FatbinEntry::kPtx) {
      add_ptx(program, entry.data);
    } else if (is_cubin(bytes_of(*entry.data))) {
      PINCH_TRY(add_cubin(program, entry.data, name, request));
    }
  }
  return {};
}

Result<std::string> need_tool(const std::string& tool, const std::string& path) {
  if (auto found = find_cuda_tool(tool)) return *found;
  return Error{
      ErrorCode::kUnsupported,
      fmt::format("compiling this needs {}; install the CUDA toolkit or put {} on PATH, or give a cubin", tool, tool),
      path};
}

// Runs ptxas on PTX in memory, which errors call `what`.
Result<void> assemble(std::vector<std::string> argv, const TemporaryFile& ptx, const std::string& what,
                      const std::string& path) {
  argv.push_back(ptx.path());
  const auto printed = run_tool(argv);
  if (printed.ok()) return {};
  Error error = printed.error();
  const std::string name = ptx.path();
  for (std::size_t at = 0; (at = error.text.find(name, at)) != std::string::npos; at += what.size())
    error.text.replace(at, name.size(), what);
  if (error.code == ErrorCode::kInvalidArgument) error.where = path;
  return error;
}

// A .cu, or the PTX that `path` holds.
Result<void> compile(Program& program, const std::string& path, const std::string& ptx_text,
                     const InputOptions& options, const Request& request) {
  const bool is_cuda = ends_with(path, ".cu");
  const auto nvcc = is_cuda ? need_tool("nvcc", path) : std::string();
  if (!nvcc) return nvcc.error();
  PINCH_ASSIGN(ptxas, need_tool("ptxas", path));
  for (const std::string& arch : options.archs) {
    PINCH_ASSIGN(cubin, TemporaryFile::create());
    PINCH_ASSIGN(ptx, TemporaryFile::create(is_cuda ? "" : ptx_text));
    if (is_cuda) {
      const std::string virtual_arch = "compute_" + arch.substr(arch.find('_') + 1);
      PINCH_TRY(run_tool({*nvcc, "-ptx", "-lineinfo", "-arch=" + virtual_arch, "-o", ptx.path(), path}));
      PINCH_ASSIGN(text, MappedFile::open(ptx.path()));
      add_ptx(program, copy_of(*text));
    }
    PINCH_TRY(
        assemble({ptxas, "-lineinfo", "-arch=" + arch, fmt::format("-O{}", options.opt_level), "-o", cubin.path()}, ptx,
                 is_cuda ? "the PTX of " + path : path, path));
    PINCH_ASSIGN(image, MappedFile::open(cubin.path()));
    PINCH_TRY(add_cubin(program, copy_of(*image), path, request));
  }
  return {};
}

Result<Program> dispatch(std::shared_ptr<const std::string> content, const std::string& name, const Request& request) {
  const Bytes bytes = bytes_of(*content);
  if (bytes.empty())
    return Error{ErrorCode::kCorrupt, fmt::format("the file is empty; {}", kAccepted), name + ", offset 0x0"};
  if (content->starts_with("\xff\xfe") || content->starts_with("\xfe\xff"))
    return Error{ErrorCode::kCorrupt, "UTF-16 text; save it as UTF-8", name + ", offset 0x0"};
  Program program;
  if (is_cubin(bytes)) {
    PINCH_TRY(add_cubin(program, content, name, request));
  } else if (is_elf(bytes)) {
    PINCH_ASSIGN(sections, fatbin_sections(bytes, name));
    for (const Bytes section : sections) {
      PINCH_TRY(add_fatbin(program, section, name, request));
    }
  } else if (read_at<std::uint32_t>(bytes, 0) == kFatbinMagic) {
    PINCH_TRY(add_fatbin(program, bytes, name, request));
  } else if (looks_like_sass_text(*content)) {
    PINCH_ASSIGN(text, read_sass_text(std::move(content), name));
    text.has_code = !text.kernels.empty();
    keep_wanted(text.kernels, request);
    return text;
  } else if (looks_like_ptx(*content)) {
    add_ptx(program, content);
  } else {
    return Error{ErrorCode::kCorrupt, fmt::format("neither an ELF, a fatbin, PTX nor SASS text; {}", kAccepted),
                 name + ", offset 0x0"};
  }
  return program;
}

// A file that was read well and yet holds nothing to analyse.
Result<Program> with_kernels(Program program, const std::string& name) {
  drop_repeated_ptx(program);
  if (program.has_code) return program;
  const auto compiled = std::find_if(program.ptx.begin(), program.ptx.end(),
                                     [](const PtxText& ptx) { return !read_ptx(*ptx.text).empty(); });
  const std::string what =
      compiled == program.ptx.end()
          ? "no kernel in this file"
          : fmt::format(
                "PTX for {} and no machine code in this file; compile it for one architecture (nvcc -cubin, or "
                "pinch sass on the .ptx)",
                compiled->arch);
  return Error{ErrorCode::kInvalidArgument, what, name};
}

}  // namespace

Result<Program> read_program_bytes(std::shared_ptr<const std::string> bytes, const std::string& name,
                                   const InputOptions& options) {
  PINCH_ASSIGN(program, dispatch(without_mark(std::move(bytes)), name,
                                 {options.disassembler == "none" ? "" : options.disassembler,
                                  !options.disassembler.empty(), options.wants}));
  return with_kernels(std::move(program), name);
}

Result<Program> read_program(const std::string& path, const InputOptions& options) {
  Request request{options.disassembler, !options.disassembler.empty(), options.wants};
  if (!request.was_asked) request.disassembler = find_cuda_tool("nvdisasm").value_or("");
  if (request.disassembler == "none") request.disassembler.clear();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return Error{ErrorCode::kInvalidArgument, fmt::format("is a folder; {}", kAccepted), path};
  const auto file = MappedFile::open(path);
  if (!file) return with_advice(file.error(), kAccepted);
  auto content = without_mark(copy_of(**file));
  if (ends_with(path, ".cu") || (!content->empty() && !looks_like_sass_text(*content) && looks_like_ptx(*content))) {
    Program program;
    if (!ends_with(path, ".cu")) add_ptx(program, content);
    PINCH_TRY(compile(program, path, *content, options, request));
    return with_kernels(std::move(program), path);
  }
  PINCH_ASSIGN(program, dispatch(std::move(content), path, request));
  return with_kernels(std::move(program), path);
}

}  // namespace pinch::sass
