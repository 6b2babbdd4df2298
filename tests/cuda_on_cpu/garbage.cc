#include "tests/cuda_on_cpu/garbage.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace cuda_on_cpu {
namespace {

unsigned char ByteAt(const unsigned char* at) {
  return static_cast<unsigned char>(kGarbage >> (reinterpret_cast<uintptr_t>(at) % 4 * 8));
}

// Of the file of garbage; a larger range maps it several times.
constexpr size_t kFileBytes = size_t{16} << 20;

int MakeFile() {
  const int file = memfd_create("cuda_on_cpu_garbage", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, kFileBytes) != 0) return -1;
  void* const pages = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (pages == MAP_FAILED) return -1;
  FillGarbage(pages, kFileBytes);
  munmap(pages, kFileBytes);
  return file;
}

bool Aligned(const unsigned char* at) { return reinterpret_cast<uintptr_t>(at) % 4 == 0; }

}  // namespace

void FillGarbage(void* at, size_t bytes) {
  auto* byte = static_cast<unsigned char*>(at);
  unsigned char* const end = byte + bytes;
  for (; byte != end && !Aligned(byte); ++byte) *byte = ByteAt(byte);
  auto* word = reinterpret_cast<uint32_t*>(byte);
  const size_t words = static_cast<size_t>(end - byte) / 4;
  for (size_t i = 0; i < words; ++i) word[i] = kGarbage;
  for (byte += words * 4; byte != end; ++byte) *byte = ByteAt(byte);
}

bool MapGarbage(void* at, size_t bytes) {
  static const int kFile = MakeFile();
  if (kFile < 0) return false;
  for (size_t done = 0; done < bytes; done += kFileBytes) {
    void* const part = static_cast<char*>(at) + done;
    const void* const mapped =
        mmap(part, std::min(kFileBytes, bytes - done), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, kFile, 0);
    if (mapped == MAP_FAILED) return false;
  }
  return true;
}

const void* FindChange(const void* at, size_t bytes) {
  const auto* byte = static_cast<const unsigned char*>(at);
  const unsigned char* const end = byte + bytes;
  for (; byte != end && !Aligned(byte); ++byte) {
    if (*byte != ByteAt(byte)) return byte;
  }
  for (; end - byte >= 4 && *reinterpret_cast<const uint32_t*>(byte) == kGarbage; byte += 4) {
  }
  for (; byte != end; ++byte) {
    if (*byte != ByteAt(byte)) return byte;
  }
  return nullptr;
}

}  // namespace cuda_on_cpu
