#include "common/rpc/process_state.h"

#include <dirent.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace sangam {
namespace {

int CountOpenFiles() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return -1;
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  // Less ".", ".." and the folder itself.
  return count - 3;
}

std::string ReadStatus() {
  std::string text(8192, '\0');
  FILE* const file = std::fopen("/proc/self/status", "re");
  if (file == nullptr) return "";
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

}  // namespace

std::string DescribeProcess() {
  std::string text = absl::StrCat("pid=", getpid());
  const std::string status = ReadStatus();
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    uint64_t number = 0;
    if (absl::ConsumePrefix(&line, "Threads:")) {
      if (absl::SimpleAtoi(line, &number)) absl::StrAppend(&text, " threads=", number);
    } else if (absl::ConsumePrefix(&line, "VmRSS:") && absl::ConsumeSuffix(&line, "kB")) {
      if (absl::SimpleAtoi(line, &number)) absl::StrAppend(&text, " rss_bytes=", number * 1024);
    }
  }
  const int files = CountOpenFiles();
  if (files >= 0) absl::StrAppend(&text, " open_files=", files);
  return text;
}

}  // namespace sangam
