#include "tests/cuda_on_cpu/shared_variables.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace cuda_on_cpu {
namespace {

// Of the program itself, which is the first of the loaded objects.
int FirstObject(dl_phdr_info* object, size_t, void* result) {
  *static_cast<dl_phdr_info*>(result) = *object;
  return 1;
}

dl_phdr_info Program() {
  dl_phdr_info info = {};
  dl_iterate_phdr(FirstObject, &info);
  return info;
}

bool StartsWith(const char* text, const std::string& prefix) {
  return std::strncmp(text, prefix.c_str(), prefix.size()) == 0;
}

// The file of the running program, kept in memory.
class SymbolTable {
 public:
  SymbolTable() {
    const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status = {};
    if (file < 0) return;
    if (fstat(file, &status) == 0) {
      void* const mapped =
          mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (mapped != MAP_FAILED) Read(static_cast<const char*>(mapped));
    }
    close(file);
  }

  template <typename Visit>
  void ForEach(int type, Visit visit) const {
    for (size_t i = 0; i < count_; ++i) {
      if (ELF64_ST_TYPE(symbols_[i].st_info) == type)
        visit(symbols_[i], names_ + symbols_[i].st_name);
    }
  }

  // Whether it is 0 at the start, as a variable without an initialiser is.
  bool StartsAsZero(const Elf64_Sym& symbol) const {
    return symbol.st_shndx < num_sections_ && sections_[symbol.st_shndx].sh_type == SHT_NOBITS;
  }

 private:
  void Read(const char* file) {
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(file);
    sections_ = reinterpret_cast<const Elf64_Shdr*>(file + header->e_shoff);
    num_sections_ = header->e_shnum;
    for (size_t i = 0; i < num_sections_; ++i) {
      if (sections_[i].sh_type != SHT_SYMTAB) continue;
      symbols_ = reinterpret_cast<const Elf64_Sym*>(file + sections_[i].sh_offset);
      count_ = sections_[i].sh_size / sizeof(Elf64_Sym);
      names_ = file + sections_[sections_[i].sh_link].sh_offset;
    }
  }

  const Elf64_Shdr* sections_ = nullptr;
  size_t num_sections_ = 0;
  const Elf64_Sym* symbols_ = nullptr;
  size_t count_ = 0;
  const char* names_ = nullptr;
};

// What this library calls its own thread's variables, `_ZZN` and this.
constexpr char kOwnNamespace[] = "11cuda_on_cpu";

// The enclosing namespaces in the mangled name of a function, such as "6sangam12cuda_kernels" in
// "_ZN6sangam12cuda_kernels5ScaleEPff". Unnamed ones only count if there is no other.
std::string Namespaces(const std::string& name) {
  constexpr char kUnnamed[] = "12_GLOBAL__N_1";
  std::string all, part;
  size_t at = StartsWith(name.c_str(), "_ZN") ? 3 : name.size();
  bool unnamed = false;
  while (at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0) {
    if (part == kUnnamed) {
      unnamed = true;
    } else {
      all += part;
    }
    char* end;
    const size_t length = std::strtoul(name.c_str() + at, &end, 10);
    const size_t digits = static_cast<size_t>(end - (name.c_str() + at));
    part = name.substr(at, digits + length);
    at += digits + length;
  }
  return all.empty() && unnamed ? kUnnamed : all;
}

KernelVariables Find(const SymbolTable& table, const void* kernel) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(kernel) - Program().dlpi_addr;
  std::set<std::string> own_prefixes, other_prefixes;
  table.ForEach(STT_FUNC, [&](const Elf64_Sym& symbol, const char* name) {
    if (symbol.st_value != address || !StartsWith(name, "_Z")) return;
    own_prefixes.insert("_ZZ" + std::string(name + 2) + "E");
    const std::string namespaces = Namespaces(name);
    if (!namespaces.empty() && namespaces != kOwnNamespace)
      other_prefixes.insert("_ZZN" + namespaces);
  });
  // A variable that code must initialise has a guard, and is none of device code.
  std::set<std::string> guarded;
  table.ForEach(STT_TLS, [&](const Elf64_Sym&, const char* name) {
    if (StartsWith(name, "_ZGV")) guarded.insert("_Z" + std::string(name + 4));
  });
  KernelVariables result;
  table.ForEach(STT_TLS, [&](const Elf64_Sym& symbol, const char* name) {
    if (!table.StartsAsZero(symbol) || guarded.count(name) != 0) return;
    const SharedVariable variable{symbol.st_value, symbol.st_size};
    for (const std::string& prefix : own_prefixes) {
      if (!StartsWith(name, prefix)) continue;
      result.own.push_back(variable);
      return;
    }
    for (const std::string& prefix : other_prefixes) {
      if (!StartsWith(name, prefix)) continue;
      result.others.push_back(variable);
      return;
    }
  });
  return result;
}

}  // namespace

size_t KernelVariables::own_bytes() const {
  size_t bytes = 0;
  for (const SharedVariable& variable : own) bytes += variable.bytes;
  return bytes;
}

const KernelVariables& FindSharedVariables(const void* kernel) {
  static std::mutex* const kMutex = new std::mutex;
  static auto* const kFound = new std::map<const void*, KernelVariables>;
  static const SymbolTable* const kTable = new SymbolTable;
  std::lock_guard<std::mutex> lock(*kMutex);
  const auto known = kFound->find(kernel);
  if (known != kFound->end()) return known->second;
  return kFound->emplace(kernel, Find(*kTable, kernel)).first->second;
}

char* ThreadVariables() { return static_cast<char*>(Program().dlpi_tls_data); }

}  // namespace cuda_on_cpu
