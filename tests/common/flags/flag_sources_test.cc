#include "common/flags/flag_sources.h"

#include <sys/stat.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/flags/flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sangam {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FlagSourcesTest : public ::testing::Test {
 protected:
  FlagSourcesTest() {
    flags_.AddString({"data_root", "DIR", "Data."}, &data_root_);
    flags_.AddCount({"threads", "N", "Threads."}, &threads_, 1, 8);
    flags_.AddRepeated({"set", "PATH=VALUE", "Changes a field."}, &sets_);
    flags_.AddString({"config", "FILE", "The file."}, &config_);
    FlagSet::Text version = {"version", "", "Asks."};
    version.command_line_only = true;
    flags_.AddSwitch(version, &version_);
  }

  std::string FileError(absl::string_view text) {
    const absl::Status status = SetFromConfigText(text, "a.conf", &flags_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  FlagSet flags_;
  std::string data_root_;
  uint64_t threads_ = 2;
  std::vector<std::string> sets_;
  std::string config_;
  bool version_ = false;
};

TEST_F(FlagSourcesTest, AFlagGoesBeforeTheEnvironmentAndThatBeforeTheFile) {
  // In the order in which a program reads them.
  ASSERT_TRUE(flags_.Parse({"--threads=5"}).ok());
  ASSERT_TRUE(SetFromEnvironment({"SANGAM_THREADS=6", "SANGAM_DATA_ROOT=/env"}, &flags_).ok());
  ASSERT_TRUE(SetFromConfigText("threads = 7\ndata_root = /file\nset = a=1", "f", &flags_).ok());
  EXPECT_EQ(threads_, 5u);
  EXPECT_EQ(data_root_, "/env");
  EXPECT_THAT(sets_, ElementsAre("a=1"));
  EXPECT_EQ(ConfigText(flags_),
            "data_root = /env  # environment variable SANGAM_DATA_ROOT\n"
            "threads = 5  # flag --threads\n"
            "set = a=1  # f:3\n"
            "# config =  # default\n");
}

TEST_F(FlagSourcesTest, TheOrderOfReadingDoesNotMatter) {
  ASSERT_TRUE(SetFromConfigText("threads = 7\nset = a\nset = b\n", "f", &flags_).ok());
  ASSERT_TRUE(SetFromEnvironment({"SANGAM_THREADS=6"}, &flags_).ok());
  EXPECT_EQ(threads_, 6u);
  EXPECT_THAT(sets_, ElementsAre("a", "b"));
  // Repeated flags keep the values of one source.
  ASSERT_TRUE(flags_.Parse({"--threads=5", "--set=c", "--set=d"}).ok());
  EXPECT_EQ(threads_, 5u);
  EXPECT_THAT(sets_, ElementsAre("c", "d"));
}

TEST_F(FlagSourcesTest, WhatIsPrintedCanBeRead) {
  ASSERT_TRUE(flags_.Parse({"--threads=5", "--set=x=1", "--config=c"}).ok());
  const std::string text = ConfigText(flags_);
  threads_ = 0;
  sets_.clear();
  FlagSet again;
  again.AddString({"data_root", "DIR", "Data."}, &data_root_);
  again.AddCount({"threads", "N", "Threads."}, &threads_, 0, 8);
  again.AddRepeated({"set", "PATH=VALUE", "Changes a field."}, &sets_);
  ASSERT_TRUE(SetFromConfigText(text, "f", &again).ok());
  EXPECT_EQ(threads_, 5u);
  EXPECT_THAT(sets_, ElementsAre("x=1"));
}

TEST_F(FlagSourcesTest, EnvironmentErrorsNameTheVariable) {
  EXPECT_EQ(SetFromEnvironment({"SANGAM_THREADS=9"}, &flags_).status().message(),
            "environment variable SANGAM_THREADS: found '9', expected a whole number from 1 to 8");
}

TEST_F(FlagSourcesTest, UnknownVariablesAreReturnedWithTheClosest) {
  const auto unknown = SetFromEnvironment(
      {"PATH=/bin", "SANGAM_THREAD=3", "SANGAM_VERSION=1", "SANGAM_EMPTY=", "SANGAM_THREADS="},
      &flags_);
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  EXPECT_THAT(*unknown,
              ElementsAre("SANGAM_THREAD; did you mean 'SANGAM_THREADS'?", "SANGAM_VERSION"));
  EXPECT_EQ(threads_, 2u);
  EXPECT_FALSE(version_);
}

TEST_F(FlagSourcesTest, ServiceLinksOfKubernetesSayNothing) {
  const std::vector<std::string> links = {
      "SANGAM_SERVER_SERVICE_HOST=10.96.0.7",
      "SANGAM_SERVER_SERVICE_PORT=7070",
      "SANGAM_SERVER_SERVICE_PORT_GRPC=7070",
      "SANGAM_SERVER_SERVICE_PORT_ADMIN_HTTP=9090",
      "SANGAM_SERVER_PORT=tcp://10.96.0.7:7070",
      "SANGAM_SERVER_PORT_7070_TCP=tcp://10.96.0.7:7070",
      "SANGAM_SERVER_PORT_7070_TCP_PROTO=tcp",
      "SANGAM_SERVER_PORT_7070_TCP_PORT=7070",
      "SANGAM_SERVER_PORT_7070_TCP_ADDR=10.96.0.7",
      // A service that is called "sangam" itself.
      "SANGAM_SERVICE_HOST=10.96.0.7",
      "SANGAM_PORT=udp://10.96.0.7:7070",
      "SANGAM_PORT_7070_UDP=udp://10.96.0.7:7070",
  };
  const auto unknown = SetFromEnvironment(links, &flags_);
  ASSERT_TRUE(unknown.ok());
  EXPECT_THAT(*unknown, IsEmpty());
  // These only look a little like it.
  for (const std::string variable :
       {"SANGAM_SERVER_PORT=7070", "SANGAM_SERVICE=x", "SANGAM_PORT_X_TCP=1",
        "SANGAM_SERVER_PORT_7070=1", "SANGAM_SERVER_PORT_7070_TCP_NAME=1",
        "SANGAM_SERVICE_HOST_NAME=1"}) {
    const size_t equals = variable.find('=');
    EXPECT_FALSE(IsServiceLink(variable.substr(0, equals), variable.substr(equals + 1)))
        << variable;
  }
  EXPECT_FALSE(IsServiceLink("OTHER_SERVICE_HOST", "x"));
}

TEST_F(FlagSourcesTest, FilesHaveCommentsSpacesAndDashes) {
  ASSERT_TRUE(
      SetFromConfigText("# all\n\n  data-root=/a#b c  # why\n\tthreads\t=\t3\r\n", "f", &flags_)
          .ok());
  EXPECT_EQ(data_root_, "/a#b c");
  EXPECT_EQ(threads_, 3u);
}

TEST_F(FlagSourcesTest, FaultsInFilesHaveTheirLine) {
  EXPECT_EQ(FileError("\nthread = 3"), "a.conf:2: unknown name 'thread'; did you mean 'threads'?");
  EXPECT_EQ(FileError("threads = 9"),
            "a.conf:1: threads: found '9', expected a whole number from 1 to 8");
  EXPECT_EQ(FileError("threads 3"), "a.conf:1: found 'threads 3', expected name = value");
  EXPECT_EQ(FileError("= 3"), "a.conf:1: found '= 3', expected name = value");
  EXPECT_EQ(FileError("threads = 3\n#\nthreads = 3"),
            "a.conf:3: threads has a value already in line 1");
  EXPECT_THAT(FileError("config = x"), HasSubstr("a.conf:1: a configuration file cannot name"));
  EXPECT_THAT(FileError("version = true"), HasSubstr("unknown name 'version'"));
}

TEST_F(FlagSourcesTest, NamesOfOtherProgramsCanBePassedOver) {
  const auto other = [](absl::string_view name) { return name == "listen"; };
  EXPECT_TRUE(SetFromConfigText("listen = x\nthreads = 3\n", "f", &flags_, other).ok());
  EXPECT_EQ(threads_, 3u);
  EXPECT_FALSE(SetFromConfigText("listn = x\n", "f", &flags_, other).ok());
}

TEST_F(FlagSourcesTest, FilesAreReadWithABound) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/a.conf");
  std::ofstream(path) << "threads = 3\n";
  EXPECT_EQ(*ReadConfigFile(path), "threads = 3\n");
  std::ofstream(path) << std::string((1 << 20) + 1, 'x');
  EXPECT_THAT(ReadConfigFile(path).status().message(), HasSubstr("larger than 1 MiB"));
  const auto missing = ReadConfigFile("/nonexistent/a.conf");
  EXPECT_EQ(missing.status().message(),
            "configuration file \"/nonexistent/a.conf\": No such file or directory");
  EXPECT_THAT(ReadConfigFile(::testing::TempDir()).status().message(), HasSubstr("directory"));
  // Nobody writes into it: no waiting.
  const std::string fifo = absl::StrCat(::testing::TempDir(), "/fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(*ReadConfigFile(fifo), "");
}

TEST_F(FlagSourcesTest, SingleVariables) {
  EXPECT_EQ(EnvironmentName("data_root"), "SANGAM_DATA_ROOT");
  EXPECT_EQ(EnvironmentValue({"A=1", "SANGAM_CONFIG=x=y"}, "config"), "x=y");
  EXPECT_EQ(EnvironmentValue({"A=1"}, "config"), "");
}

}  // namespace
}  // namespace sangam
