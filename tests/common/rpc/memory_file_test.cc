#include "common/rpc/memory_file.h"

#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace sangam {
namespace {

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

time_t ChangedAt(const std::string& path) {
  struct stat facts = {};
  EXPECT_EQ(stat(path.c_str(), &facts), 0);
  return facts.st_mtime;
}

TEST(MemoryFileTest, ShowsTheNewestContentUnderOnePath) {
  auto file = MemoryFile::Create("first");
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string path = (*file)->path();
  EXPECT_EQ(ReadAll(path), "first");
  // Whoever reads already goes on with the old content.
  std::ifstream reader(path);
  const time_t before = ChangedAt(path);
  ASSERT_TRUE((*file)->Replace("second and longer").ok());
  EXPECT_EQ((*file)->path(), path);
  EXPECT_EQ(ReadAll(path), "second and longer");
  EXPECT_NE(ChangedAt(path), before) << "readers that compare seconds see the change";
  std::string old;
  reader >> old;
  EXPECT_EQ(old, "first");
  file->reset();
  EXPECT_EQ(ReadAll(path), "");
}

TEST(MemoryFileTest, TakesContentOfAnySize) {
  const std::string large(3'000'000, 'x');
  auto file = MemoryFile::Create("");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(ReadAll((*file)->path()), "");
  ASSERT_TRUE((*file)->Replace(large).ok());
  EXPECT_EQ(ReadAll((*file)->path()), large);
}

}  // namespace
}  // namespace sangam
