// Whatever a user gets wrong: a clear error, an exit code other than 0, no crash, and the daemons
// live on.
#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/cluster.h"
#include "tests/testing/idx_files.h"
#include "tests/testing/subprocess.h"

namespace sangam::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr absl::Duration kDeadline = absl::Seconds(60);

// One server and one worker for all tests of this file, which at the end must still train.
class BadInputTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    data_ = new std::string(FreshFolder("bad-data"));
    cluster_ = new Cluster({FreshFolder("bad-cluster"), *data_, "2s"});
    cluster_->StartCoordinator("all");
    cluster_->StartWorker("w1");
  }

  static void TearDownTestSuite() {
    delete cluster_;
    delete data_;
  }

  void SetUp() override { WriteTestData(*data_, 64, 20); }

  void TearDown() override {
    EXPECT_TRUE(cluster_->daemon("coordinator").Running());
    EXPECT_TRUE(cluster_->daemon("w1").Running());
    WriteTestData(*data_, 64, 20);
    TestJob job;
    job.name = "good";
    cluster_->Submit(JobText(job));
    const Finished watched = cluster_->Client({"watch", "good"}, kDeadline);
    EXPECT_EQ(watched.exit_code, 0) << watched.output;
  }

  // Submits a job file and returns what the client said; it must refuse.
  std::string Refused(const std::string& text) {
    const std::string path = absl::StrCat(::testing::TempDir(), "/refused.textproto");
    WriteFile(path, text);
    const Finished submitted = cluster_->Client({"submit", path}, kDeadline);
    EXPECT_NE(submitted.exit_code, 0) << submitted.output;
    EXPECT_NE(submitted.exit_code, -1) << "crashed or hung: " << submitted.output;
    return submitted.output;
  }

  // Submits a job that is accepted and must fail; returns the client's last words.
  std::string Failed(const std::string& text) {
    cluster_->Submit(text);
    const Finished watched = cluster_->Client({"watch", "test"}, kDeadline);
    EXPECT_EQ(watched.exit_code, 3) << watched.output;
    return watched.output;
  }

  static std::string With(const std::string& from, const std::string& to) {
    const std::string text = JobText(TestJob());
    const std::string changed = absl::StrReplaceAll(text, {{from, to}});
    EXPECT_NE(text, changed) << "nothing to replace: " << from;
    return changed;
  }

  static std::string* data_;
  static Cluster* cluster_;
};

std::string* BadInputTest::data_ = nullptr;
Cluster* BadInputTest::cluster_ = nullptr;

TEST_F(BadInputTest, JobFilesAreRefusedWithTheField) {
  EXPECT_THAT(Refused("name: \"x\"\nsede: 7\n"),
              AllOf(HasSubstr("refused.textproto:2:"), HasSubstr("sede")));
  EXPECT_THAT(Refused("name: \"x\nseed: 7\n"), HasSubstr("refused.textproto:1:"));
  EXPECT_THAT(Refused(With("layer { flatten {} } ", "")),
              AllOf(HasSubstr("loss.softmax_cross_entropy"), HasSubstr("[28,10]")));
  EXPECT_THAT(Refused(With("shares: 8", "shares: 9")), HasSubstr("batch.shares: found 9"));
  EXPECT_THAT(Refused(With("learning_rate: 0.05", "learning_rate: nan")),
              HasSubstr("optimizer.learning_rate: found nan"));
  // Several faults come at once.
  EXPECT_THAT(Refused("name: \"x\"\n"), AllOf(HasSubstr("model.block"), HasSubstr("batch.size")));
  const Finished missing = cluster_->Client({"submit", "/nonexistent/job.textproto"}, kDeadline);
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.output, HasSubstr("/nonexistent/job.textproto"));
}

TEST_F(BadInputTest, DataFilesFailTheJobWithTheirName) {
  const std::string images = absl::StrCat(*data_, "/train-images");
  const ImageSet set = MakeImages(1, 64, 28, 28, 10);

  std::filesystem::remove(images);
  EXPECT_THAT(Failed(JobText(TestJob())), HasSubstr("train-images"));

  WriteFile(images, IdxImages(set).substr(0, 1000));
  EXPECT_THAT(Failed(JobText(TestJob())), AllOf(HasSubstr("train-images"), HasSubstr("1000")));

  std::string corrupt = IdxImages(set);
  corrupt[2] = 0x0d;
  WriteFile(images, corrupt);
  EXPECT_THAT(Failed(JobText(TestJob())), HasSubstr("train-images"));

  // Another number of labels than of images.
  WriteFile(images, IdxImages(MakeImages(1, 63, 28, 28, 10)));
  EXPECT_THAT(Failed(JobText(TestJob())), AllOf(HasSubstr("63"), HasSubstr("64")));

  // Another shape than the model's.
  WriteFile(images, IdxImages(MakeImages(1, 64, 28, 27, 10)));
  EXPECT_THAT(Failed(JobText(TestJob())), AllOf(HasSubstr("27"), HasSubstr("28")));
}

TEST_F(BadInputTest, PathsOutsideTheDataRootAreRefused) {
  WriteFile(absl::StrCat(::testing::TempDir(), "/outside"), "secret");
  EXPECT_THAT(Failed(With("\"train-images\"", "\"../outside\"")),
              AllOf(HasSubstr("../outside"), HasSubstr("data_root")));
  std::filesystem::remove(absl::StrCat(*data_, "/link"));
  std::filesystem::create_symlink(absl::StrCat(::testing::TempDir(), "/outside"),
                                  absl::StrCat(*data_, "/link"));
  EXPECT_THAT(Failed(With("\"train-images\"", "\"link\"")),
              AllOf(HasSubstr("link"), HasSubstr("data_root")));
  EXPECT_THAT(Refused(With("\"train-images\"", "\"/etc/passwd\"")),
              HasSubstr("data.idx.train_images"));
}

TEST_F(BadInputTest, TwoServersNeverShareAPort) {
  const Finished second =
      RunCommand({ServerBinary(), absl::StrCat("--listen=", cluster_->address())}, kDeadline);
  EXPECT_EQ(second.exit_code, 78) << second.output;
  EXPECT_THAT(second.output, HasSubstr(cluster_->address()));
}

TEST_F(BadInputTest, UnreachableCoordinatorIsToldAfterADeadline) {
  // Nothing listens on port 1.
  const Finished client =
      RunCommand({ClientBinary(), "list", "--coordinator=127.0.0.1:1", "--timeout=1s"}, kDeadline);
  EXPECT_EQ(client.exit_code, 7) << client.output;
  EXPECT_THAT(client.output, HasSubstr("127.0.0.1:1"));
  const Finished worker = RunCommand({WorkerBinary(), "--coordinator=127.0.0.1:1",
                                      "--start_deadline=1s", absl::StrCat("--data_root=", *data_)},
                                     kDeadline);
  EXPECT_EQ(worker.exit_code, 1) << worker.output;
  EXPECT_THAT(worker.output, HasSubstr("127.0.0.1:1"));
}

TEST_F(BadInputTest, WrongFlagsAreTold) {
  const struct {
    std::vector<std::string> argv;
    const char* text;
    int exit_code = 2;
  } cases[] = {
      {{ClientBinary(), "sbumit"}, "submit"},
      {{ClientBinary(), "list", "--no_such_flag"}, "no_such_flag"},
      {{ClientBinary(), "run"}, "FILE"},
      {{ServerBinary(), "--listen=nowhere"}, "nowhere", 78},
      {{ServerBinary(), "--role=king"}, "king"},
      {{ServerBinary(), "--role=server"}, "--coordinator"},
      {{ServerBinary(), "--listn=127.0.0.1:0"}, "--listen"},
      {{ServerBinary(), "--config=/nonexistent.conf"}, "/nonexistent.conf", 78},
      {{WorkerBinary()}, "coordinator"},
      {{WorkerBinary(), "--coordinator=127.0.0.1:1", "--data_root=/nonexistent"},
       "/nonexistent",
       78},
      {{WorkerBinary(), "--coordinator=127.0.0.1:1",
        absl::StrCat("--data_root=", ::testing::TempDir()), "--backend=abacus"},
       "abacus"},
  };
  for (const auto& test : cases) {
    const Finished finished = RunCommand(test.argv, kDeadline);
    EXPECT_EQ(finished.exit_code, test.exit_code) << test.argv.back() << ": " << finished.output;
    EXPECT_THAT(finished.output, HasSubstr(test.text));
  }
}

TEST_F(BadInputTest, RunReportsTheReasonAndLeavesNothingBehind) {
  const std::string folder = FreshFolder("bad-run");
  const std::string file = absl::StrCat(folder, "/job.textproto");
  WriteFile(file, With("\"train-images\"", "\"missing\""));
  const Finished run =
      RunCommand({ClientBinary(), "run", file, "--workers=1", absl::StrCat("--data_root=", *data_),
                  absl::StrCat("--out=", folder, "/out")},
                 kDeadline);
  EXPECT_EQ(run.exit_code, 3) << run.output;
  EXPECT_THAT(run.output, AllOf(HasSubstr("job test FAILED"), HasSubstr("missing")));
}

}  // namespace
}  // namespace sangam::testing
