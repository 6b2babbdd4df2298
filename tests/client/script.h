#ifndef SANGAM_TESTS_CLIENT_SCRIPT_H_
#define SANGAM_TESTS_CLIENT_SCRIPT_H_

#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/files.h"
#include "gtest/gtest.h"

namespace sangam {

// An empty directory for a test.
inline std::string FreshDirectory(const std::string& name) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  std::filesystem::remove_all(path);
  EXPECT_TRUE(MakeDirectories(path).ok());
  return path;
}

// Writes a shell script that can be run, and returns its path. It finds $ready_file and $name as
// its flags say, and `ready TEXT` writes the ready file.
inline std::string WriteScript(const std::string& path, const std::string& body) {
  EXPECT_TRUE(WriteFileAtomically(path, absl::StrCat(R"(#!/bin/sh
for flag in "$@"; do
  case "$flag" in
    --ready_file=*) ready_file="${flag#--ready_file=}" ;;
    --name=*) name="${flag#--name=}" ;;
  esac
done
ready() {
  echo "$1" > "$ready_file.part" && mv "$ready_file.part" "$ready_file"
}
)",
                                                     body, "\n"))
                  .ok());
  EXPECT_EQ(chmod(path.c_str(), 0700), 0);
  return path;
}

}  // namespace sangam

#endif  // SANGAM_TESTS_CLIENT_SCRIPT_H_
