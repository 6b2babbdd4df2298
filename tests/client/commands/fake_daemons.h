#ifndef SANGAM_TESTS_CLIENT_COMMANDS_FAKE_DAEMONS_H_
#define SANGAM_TESTS_CLIENT_COMMANDS_FAKE_DAEMONS_H_

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/client/script.h"

namespace sangam {

// The path of the fake server (tests/client/fake_server.cc) under a name that ends in "-<course>".
inline std::string FakeServer(const std::string& directory, const std::string& course) {
  const std::string path = absl::StrCat(directory, "/server-", course);
  std::error_code error;
  std::filesystem::create_symlink(std::filesystem::absolute("tests/client/fake_server"), path,
                                  error);
  EXPECT_FALSE(error) << error.message();
  return path;
}

// A worker that becomes ready and does nothing.
inline std::string IdleWorker(const std::string& directory) {
  return WriteScript(absl::StrCat(directory, "/worker"),
                     "echo \"worker $*\"; ready \"$name\"; exec sleep 1000");
}

}  // namespace sangam

#endif  // SANGAM_TESTS_CLIENT_COMMANDS_FAKE_DAEMONS_H_
