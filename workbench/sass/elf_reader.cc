#include "workbench/sass/elf_reader.h"

#include <fmt/core.h>
#include <libelf.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "workbench/sass/line_table.h"

namespace pinch::sass {
namespace {

constexpr std::uint16_t kMachineCuda = 190;
constexpr std::uint8_t kOsAbiCuda13 = 0x41;  // until CUDA 12: 0x33, with the SM number in the low byte of e_flags
constexpr std::uint32_t kFlagOfA = 0x800;  // there, of e_flags: own builds by ptxas 12.1 and 12.8 for sm_90 and sm_90a
constexpr std::uint8_t kEntry = 0x10;      // st_other of a kernel, as opposed to a device function
constexpr std::uint64_t kReservedSharedBytes = 1024;             // the driver's own, counted in the section from sm_90
constexpr std::uint64_t kMaxTextBytes = std::uint64_t{1} << 32;  // offsets are 32 bits

// Attributes of .nv.info.
constexpr std::uint8_t kFrameSize = 0x11, kExitOffsets = 0x1c, kRegisterCount = 0x2f, kBarrierCount = 0x4c;

struct Section {
  std::string_view name;  // into the file
  Elf64_Shdr header;
  Bytes data;  // empty for NOBITS
};

struct ElfFile {
  Elf64_Ehdr header;
  std::vector<Section> sections;
  std::unordered_map<std::string_view, std::size_t> by_name;  // the first of each name
};

Error corrupt(const std::string& name, std::uint64_t offset, const std::string& what) {
  return {ErrorCode::kCorrupt, what, fmt::format("{}, offset 0x{:x}", name, offset)};
}

// Sections of which each is read in its turn: lying over each other, they make a small file a large program. Others may
// (ptxas lays copies that it calls .nv.merc.* over the debug sections).
bool is_read_each(std::string_view name) {
  return name.starts_with(".text.") || name.starts_with(".nv.info") || name == ".nv_fatbin" || name == "__nv_relfatbin";
}

Result<void> check_apart(const std::vector<Section>& sections, const std::string& name) {
  std::vector<const Section*> by_offset;
  for (const Section& section : sections) {
    if (!section.data.empty() && is_read_each(section.name)) by_offset.push_back(&section);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const Section* a, const Section* b) { return a->header.sh_offset < b->header.sh_offset; });
  for (std::size_t i = 1; i < by_offset.size(); ++i) {
    const Section &before = *by_offset[i - 1], &behind = *by_offset[i];
    if (before.header.sh_offset + before.header.sh_size <= behind.header.sh_offset) continue;
    return corrupt(name, behind.header.sh_offset,
                   fmt::format("section {} lies over section {}", printable(behind.name), printable(before.name)));
  }
  return {};
}

// Names may share a string's end; more than this is one long string named again and again.
bool fits(std::uint64_t name_bytes, std::uint64_t file_bytes) {
  return name_bytes <= 16 * file_bytes;
}

// libelf trusts the header's counts, so what it will follow is checked before it is asked.
Result<void> check_header(Bytes bytes, const std::string& name) {
  if (bytes.size() < sizeof(Elf64_Ehdr)) {
    return corrupt(name, bytes.size(),
                   fmt::format("an ELF header needs {} bytes, the file has {}", sizeof(Elf64_Ehdr), bytes.size()));
  }
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return corrupt(name, EI_CLASS, "not a 64-bit little-endian ELF");
  }
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shnum == 0) {
    return corrupt(name, offsetof(Elf64_Ehdr, e_shentsize),
                   fmt::format("{} section headers of {} bytes; expected some of {}", header.e_shnum,
                               header.e_shentsize, sizeof(Elf64_Shdr)));
  }
  if (!slice(bytes, header.e_shoff, std::uint64_t{header.e_shnum} * sizeof(Elf64_Shdr))) {
    return corrupt(
        name, header.e_shoff,
        fmt::format("the table of {} section headers ends outside the file of {} bytes", header.e_shnum, bytes.size()));
  }
  if (!slice(bytes, header.e_phoff, std::uint64_t{header.e_phnum} * header.e_phentsize)) {
    return corrupt(
        name, header.e_phoff,
        fmt::format("the table of {} program headers ends outside the file of {} bytes", header.e_phnum, bytes.size()));
  }
  if (header.e_shstrndx >= header.e_shnum)
    return corrupt(name, offsetof(Elf64_Ehdr, e_shstrndx), "the section of names does not exist");
  return {};
}

Result<ElfFile> open_elf(Bytes bytes, const std::string& name) {
  PINCH_TRY(check_header(bytes, name));
  elf_version(EV_CURRENT);
  // libelf takes a mutable pointer, but writes nothing unless asked to update.
  auto* image = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  const std::unique_ptr<Elf, int (*)(Elf*)> elf(elf_memory(image, bytes.size()), elf_end);
  if (!elf || elf_kind(elf.get()) != ELF_K_ELF || elf64_getehdr(elf.get()) == nullptr) {
    return corrupt(name, 0, fmt::format("not a readable ELF: {}", elf_errmsg(-1)));
  }
  ElfFile file{*elf64_getehdr(elf.get()), {}, {}};
  std::uint64_t name_bytes = 0;
  for (Elf_Scn* scn = elf_nextscn(elf.get(), nullptr); scn != nullptr; scn = elf_nextscn(elf.get(), scn)) {
    const Elf64_Shdr* in_file = elf64_getshdr(scn);
    if (in_file == nullptr) return corrupt(name, file.header.e_shoff, "a section header cannot be read");
    Section section;
    std::memcpy(&section.header, in_file, sizeof section.header);  // libelf may point at an odd address of the file
    const Elf64_Shdr& header = section.header;
    if (header.sh_type != SHT_NOBITS) {
      const auto data = slice(bytes, header.sh_offset, header.sh_size);
      if (!data) {
        return corrupt(name, header.sh_offset,
                       fmt::format("section {} claims {} bytes and ends outside the file of {}", elf_ndxscn(scn),
                                   header.sh_size, bytes.size()));
      }
      section.data = *data;
    }
    const char* label = elf_strptr(elf.get(), file.header.e_shstrndx, header.sh_name);
    if (label == nullptr)
      return corrupt(name, header.sh_offset, fmt::format("section {} has no readable name", elf_ndxscn(scn)));
    section.name = label;  // libelf points into the image
    name_bytes += section.name.size();
    if (!fits(name_bytes, bytes.size()))
      return corrupt(name, header.sh_offset, "section names are longer than the file that holds them");
    file.by_name.emplace(section.name, file.sections.size());
    file.sections.push_back(section);
  }
  PINCH_TRY(check_apart(file.sections, name));
  return file;
}

const Section* find(const ElfFile& file, std::string_view name) {
  const auto found = file.by_name.find(name);
  return found == file.by_name.end() ? nullptr : &file.sections[found->second];
}

// Records of .nv.info: format, attribute, then two bytes of value or a size and its payload.
template <class Visit>
void for_each_attribute(Bytes info, Visit visit) {
  std::uint64_t at = 0;
  while (const auto head = read_at<std::uint32_t>(info, at)) {
    const auto format = static_cast<std::uint8_t>(*head & 0xff);
    const auto attribute = static_cast<std::uint8_t>(*head >> 8 & 0xff);
    const auto value = static_cast<std::uint16_t>(*head >> 16);
    at += 4;
    if (format == 4) {
      const auto payload = slice(info, at, value);
      if (!payload) return;
      visit(attribute, *payload, value);
      at += value;
    } else {
      visit(attribute, Bytes{}, value);
    }
  }
}

// "sm_90a". Since CUDA 13 ptxas's own command line has the suffix, and .nv.compat marks it.
std::string arch_of(const ElfFile& file) {
  const bool cuda13 = file.header.e_ident[EI_OSABI] >= kOsAbiCuda13;
  const unsigned sm = cuda13 ? file.header.e_flags >> 8 & 0xff : file.header.e_flags & 0xff;
  const std::string number = fmt::format("sm_{}", sm);
  if (!cuda13 && (file.header.e_flags & kFlagOfA) != 0) return number + "a";
  if (const Section* note = find(file, ".note.nv.tkinfo")) {
    const std::string_view text(reinterpret_cast<const char*>(note->data.data()), note->data.size());
    for (std::size_t at = text.find(number); at != std::string_view::npos; at = text.find(number, at + 1)) {
      const char next = at + number.size() < text.size() ? text[at + number.size()] : ' ';
      if (next == 'a' || next == 'f') return number + next;
    }
  }
  if (const Section* compat = find(file, ".nv.compat")) {
    for (std::uint64_t at = 0; const auto record = read_at<std::uint32_t>(compat->data, at); at += 4) {
      if ((*record & 0xffffff) == 0x010902) return number + "a";
    }
  }
  return number;
}

// ptxas's own release and options, from the texts of its note: "release 13.0, V13.0.88: -O 3 -arch sm_90a".
std::string built_with(const ElfFile& file) {
  const Section* note = find(file, ".note.nv.tkinfo");
  if (note == nullptr) return "";
  std::string_view rest(reinterpret_cast<const char*>(note->data.data()), note->data.size());
  std::string release, options;
  while (!rest.empty()) {
    const std::string_view text = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    constexpr std::size_t kLongest = 4096;  // every kernel holds a copy
    if (text.size() > kLongest) continue;
    if (const auto at = text.find("release "); at != std::string_view::npos) release = text.substr(at);
    if (!text.starts_with('-')) continue;
    options.clear();
    for (const char c : text) {
      if (c != ' ' || (!options.empty() && options.back() != ' ')) options += c;
    }
    if (options.ends_with(' ')) options.pop_back();
  }
  return release.empty() || options.empty() ? "" : printable(release + ": " + options);
}

// Functions by number, the same for every symbol of one name: tables refer to symbols as often as they like, and a name
// may be long, so that it is looked at once a symbol and once a section.
struct SymbolFacts {
  std::unordered_map<std::string_view, std::uint32_t> number_of;     // by name, a view into the file
  std::unordered_map<std::uint32_t, std::uint32_t> number_of_index;  // by index, as .nv.info refers to symbols
  std::unordered_map<std::uint32_t, bool> is_entry;                  // by number
};

Result<SymbolFacts> symbols_of(const ElfFile& file, Bytes bytes, const std::string& name) {
  SymbolFacts facts;
  std::uint64_t name_bytes = 0;
  const Section* table = find(file, ".symtab");
  const Section* names = find(file, ".strtab");
  if (table == nullptr || names == nullptr) return facts;
  for (std::uint32_t i = 0;; ++i) {
    const auto raw = slice(table->data, std::uint64_t{i} * sizeof(Elf64_Sym), sizeof(Elf64_Sym));
    if (!raw) return facts;
    Elf64_Sym symbol;
    std::memcpy(&symbol, raw->data(), sizeof symbol);
    if (symbol.st_name >= names->data.size()) continue;
    const auto* begin = reinterpret_cast<const char*>(names->data.data()) + symbol.st_name;
    const std::string_view label(begin, strnlen(begin, names->data.size() - symbol.st_name));
    name_bytes += label.size();
    if (!fits(name_bytes, bytes.size()))
      return corrupt(name, table->header.sh_offset, "symbol names are longer than the file that holds them");
    const std::uint32_t number = facts.number_of.try_emplace(label, i).first->second;
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC) facts.is_entry[number] = (symbol.st_other & kEntry) != 0;
    facts.number_of_index.emplace(i, number);
  }
}

constexpr std::uint32_t kNoSymbol = UINT32_MAX;

using PerFunction = std::unordered_map<std::uint32_t, std::uint32_t>;  // by number

// Attribute `wanted` of the global .nv.info: pairs of symbol and value.
PerFunction per_function(const ElfFile& file, const SymbolFacts& symbols, std::uint8_t wanted) {
  PerFunction values;
  const Section* info = find(file, ".nv.info");
  if (info == nullptr) return values;
  for_each_attribute(info->data, [&](std::uint8_t attribute, Bytes payload, std::uint16_t) {
    const auto symbol = read_at<std::uint32_t>(payload, 0), value = read_at<std::uint32_t>(payload, 4);
    if (attribute != wanted || !symbol || !value) return;
    const auto number = symbols.number_of_index.find(*symbol);
    if (number != symbols.number_of_index.end()) values[number->second] = *value;
  });
  return values;
}

void read_own_attributes(const ElfFile& file, Kernel& kernel) {
  const Section* info = find(file, ".nv.info." + kernel.name);
  if (info == nullptr) return;
  for_each_attribute(info->data, [&](std::uint8_t attribute, Bytes payload, std::uint16_t value) {
    if (attribute == kBarrierCount) kernel.barriers = value & 0xff;
    if (attribute != kExitOffsets) return;
    for (std::uint64_t at = 0; const auto offset = read_at<std::uint32_t>(payload, at); at += 4)
      kernel.exits.push_back(*offset);
  });
}

// Function by the place in .debug_line that a relocation fills with its address. Until sm_89 without addends.
std::map<std::uint64_t, std::uint32_t> addresses_of_lines(const ElfFile& file, const SymbolFacts& symbols) {
  std::map<std::uint64_t, std::uint32_t> functions;
  for (const auto& [name, size] :
       {std::pair(".rel.debug_line", sizeof(Elf64_Rel)), {".rela.debug_line", sizeof(Elf64_Rela)}}) {
    const Section* table = find(file, name);
    if (table == nullptr) continue;
    for (std::uint64_t at = 0; const auto raw = slice(table->data, at, size); at += size) {
      Elf64_Rel entry;  // what both kinds begin with
      std::memcpy(&entry, raw->data(), sizeof entry);
      const auto number = symbols.number_of_index.find(static_cast<std::uint32_t>(ELF64_R_SYM(entry.r_info)));
      if (number != symbols.number_of_index.end()) functions[entry.r_offset] = number->second;
    }
  }
  return functions;
}

void set_lines(Kernel& kernel, const std::vector<LineRow>& rows, const std::vector<SourceFile>& files) {
  std::map<std::uint32_t, std::uint16_t> used;
  auto next = rows.begin();
  LineRow now;
  for (Instruction& i : kernel.instructions) {
    while (next != rows.end() && next->offset <= i.offset) now = *next++;
    if (now.line == 0 || kernel.files.size() > 0xfffe) continue;
    const auto [file, is_new] = used.try_emplace(now.file, static_cast<std::uint16_t>(kernel.files.size()));
    if (is_new) kernel.files.push_back(files[now.file]);
    i.line = now.line;
    i.file = file->second;
  }
}

std::vector<Instruction> read_words(Bytes text) {
  std::vector<Instruction> made(text.size() / kInstructionBytes);
  for (std::size_t i = 0; i < made.size(); ++i) {
    Instruction& instruction = made[i];
    std::memcpy(&instruction.low, text.data() + i * kInstructionBytes, 8);
    std::memcpy(&instruction.high, text.data() + i * kInstructionBytes + 8, 8);
    instruction.offset = static_cast<std::uint32_t>(i * kInstructionBytes);
    instruction.control = decode_control(instruction.high);
    instruction.has_word = true;
    instruction.guard = static_cast<std::uint8_t>(instruction.low >> 12 & 7);
    instruction.guard_negated = (instruction.low >> 15 & 1) != 0;
  }
  return made;
}

}  // namespace

bool is_elf(Bytes bytes) {
  return bytes.size() >= SELFMAG && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0;
}

bool is_cubin(Bytes bytes) {
  return is_elf(bytes) && read_at<std::uint16_t>(bytes, offsetof(Elf64_Ehdr, e_machine)).value_or(0) == kMachineCuda;
}

Result<std::vector<Kernel>> read_cubin(Bytes bytes, const std::string& name) {
  PINCH_ASSIGN(file, open_elf(bytes, name));
  const std::string arch = arch_of(file), tool = built_with(file);
  PINCH_ASSIGN(symbols, symbols_of(file, bytes, name));
  const PerFunction registers = per_function(file, symbols, kRegisterCount);
  const PerFunction frames = per_function(file, symbols, kFrameSize);
  LineTable lines;
  if (const Section* section = find(file, ".debug_line"))
    lines = read_line_table(section->data, addresses_of_lines(file, symbols));
  const bool reserves_shared = arch.size() > 4 && std::atoi(arch.c_str() + 3) >= 90;
  std::vector<Kernel> kernels;
  std::unordered_set<std::string_view> names;
  for (const Section& section : file.sections) {
    constexpr std::string_view kPrefix = ".text.";
    if (section.name.rfind(kPrefix, 0) != 0 || section.header.sh_type != SHT_PROGBITS) continue;
    if (section.data.size() % kInstructionBytes != 0 || section.data.size() >= kMaxTextBytes) {
      return corrupt(name, section.header.sh_offset,
                     fmt::format("section {} has {} bytes; expected a multiple of {} under 4 GiB",
                                 printable(section.name), section.data.size(), kInstructionBytes));
    }
    if (!names.insert(section.name).second) {
      return corrupt(name, section.header.sh_offset,
                     fmt::format("two sections are called {}", printable(section.name)));
    }
    Kernel kernel;
    kernel.name = std::string(
        section.name.substr(kPrefix.size()));  // made printable below, once it has found what is named after it
    kernel.arch = arch;
    kernel.built_with = tool;
    kernel.instructions = read_words(section.data);
    const auto symbol = symbols.number_of.find(kernel.name);
    const std::uint32_t number = symbol == symbols.number_of.end() ? kNoSymbol : symbol->second;
    const auto count = registers.find(number);
    kernel.registers = static_cast<int>(count != registers.end() ? count->second : section.header.sh_info >> 24);
    const auto frame = frames.find(number);
    if (frame != frames.end()) kernel.frame_bytes = static_cast<int>(frame->second);
    kernel.shared_bytes = 0;
    if (const Section* shared = find(file, ".nv.shared." + kernel.name)) {
      const std::uint64_t reserved = reserves_shared ? std::min(kReservedSharedBytes, shared->header.sh_size) : 0;
      kernel.shared_bytes = static_cast<int>(std::min<std::uint64_t>(shared->header.sh_size - reserved, 1 << 30));
    }
    kernel.barriers = 0;
    const auto entry = symbols.is_entry.find(number);
    kernel.is_entry = entry == symbols.is_entry.end() || entry->second;
    read_own_attributes(file, kernel);
    if (const auto rows = lines.functions.find(number); rows != lines.functions.end())
      set_lines(kernel, rows->second, lines.files);
    kernel.name = printable(kernel.name);
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

Result<std::vector<Bytes>> fatbin_sections(Bytes bytes, const std::string& name) {
  PINCH_ASSIGN(file, open_elf(bytes, name));
  std::vector<Bytes> found;
  for (const Section& section : file.sections) {
    if (section.name == ".nv_fatbin" || section.name == "__nv_relfatbin") found.push_back(section.data);
  }
  if (found.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "this ELF holds no device code (no section .nv_fatbin); give a cubin, a fatbin, an object or "
                 "executable built by nvcc, .ptx, .cu, or SASS text",
                 name};
  }
  return found;
}

}  // namespace pinch::sass
