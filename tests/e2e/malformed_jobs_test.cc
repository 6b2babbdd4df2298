// Job files with faults of every kind, through the client's parser and the coordinator's whole
// check: the end is a plan and a job, or a message that names the file or a field; never a crash or
// a hang.

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/job_file.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "server/runtime/coordinator.h"
#include "tests/server/core/control_fixtures.h"
#include "tests/testing/fake_clock.h"

namespace sangam {
namespace {

using Random = std::mt19937;

constexpr const char* kJobs[] = {"fashion_mnist_mlp", "gpt_text",    "mlp_4_stages",
                                 "mlp_hybrid",        "cifar_cnn",   "csv_regression",
                                 "fashion_mnist_cnn", "residual_cnn"};
// Of one file, on a busy machine.
constexpr absl::Duration kLongest = absl::Seconds(20);

size_t Below(Random* random, size_t size) { return size == 0 ? 0 : (*random)() % size; }

// Replaces one of the text's numbers.
void ReplaceNumber(Random* random, std::string* text) {
  const char* const extremes[] = {"0",
                                  "-1",
                                  "1e39",
                                  "nan",
                                  "-inf",
                                  "4294967295",
                                  "4294967296",
                                  "18446744073709551615",
                                  "18446744073709551616",
                                  "1048576",
                                  "0.5",
                                  "99999999999999999999999999",
                                  "65536",
                                  "-0.0"};
  std::vector<size_t> starts;
  for (size_t i = 1; i < text->size(); ++i) {
    const auto is_digit = [text](size_t at) {
      return absl::ascii_isdigit(static_cast<unsigned char>((*text)[at]));
    };
    if (is_digit(i) && !is_digit(i - 1)) starts.push_back(i);
  }
  if (starts.empty()) return;
  const size_t at = starts[Below(random, starts.size())];
  const size_t end = std::min(text->find_first_not_of("0123456789.", at), text->size());
  text->replace(at, end - at, extremes[Below(random, std::size(extremes))]);
}

// A line or, where there is one line, a piece.
void DuplicateLine(Random* random, std::string* text) {
  const size_t at = Below(random, text->size());
  const size_t line = at == 0 ? std::string::npos : text->rfind('\n', at - 1);
  const size_t begin = line == std::string::npos ? 0 : line + 1;
  const size_t end = std::min(text->find('\n', begin), text->size());
  text->insert(begin, text->substr(begin, end - begin + 1));
}

void Mutate(Random* random, std::string* text) {
  const std::string pieces[] = {
      "{",   "}",        "[",     "]",         "\"",           ":", "model {", "layer { residual {",
      "\0x", "\xff\xfe", "\\377", "epochs: 1", "\"seed\": 1,", "#", ","};
  switch (Below(random, 9)) {
    case 0:
      text->resize(Below(random, text->size()));
      return;
    case 1:
      if (!text->empty()) {
        (*text)[Below(random, text->size())] ^= static_cast<char>(1 << Below(random, 8));
      }
      return;
    case 2:
      return DuplicateLine(random, text);
    case 3: {  // deep nesting
      const size_t at = Below(random, text->size());
      const std::string& piece = pieces[Below(random, 8)];
      const size_t times = size_t{1} << Below(random, 15);
      std::string many;
      for (size_t i = 0; i < times; ++i) many += piece;
      text->insert(at, many);
      return;
    }
    case 4: {
      const size_t at = Below(random, text->size());
      text->erase(at, 1 + Below(random, 40));
      return;
    }
    case 5:
      text->insert(Below(random, text->size() + 1), pieces[Below(random, std::size(pieces))]);
      return;
    default:
      return ReplaceNumber(random, text);
  }
}

std::string Content(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Whether every line begins with the path of a field of JobSpec.
bool NamesFields(absl::string_view message) {
  for (const absl::string_view line : absl::StrSplit(message, '\n')) {
    const size_t end = line.find_first_of(".[: ");
    if (end == absl::string_view::npos ||
        v1::JobSpec::descriptor()->FindFieldByName(std::string(line.substr(0, end))) == nullptr) {
      return false;
    }
  }
  return true;
}

class MalformedJobsTest : public ::testing::Test {
 protected:
  MalformedJobsTest() : coordinator_({}, &clock_) {
    for (int w = 0; w < 4; ++w) {
      const auto daemon = testing::Daemon(v1::WORKER, absl::StrCat("w", w));
      EXPECT_TRUE(coordinator_.Register(testing::Registration(daemon)).ok());
    }
    for (const char* name : kJobs) {
      const std::string path = absl::StrCat("deploy/jobs/", name, ".textproto");
      texts_.push_back(Content(path));
      const absl::StatusOr<v1::JobSpec> spec = ParseJobFile(texts_.back(), path);
      EXPECT_TRUE(spec.ok()) << spec.status();
      std::string json;
      google::protobuf::util::JsonPrintOptions options;
      options.add_whitespace = true;
      EXPECT_TRUE(google::protobuf::util::MessageToJsonString(*spec, &json, options).ok());
      texts_.push_back(json);
    }
  }

  // What happened to a job: "parser", "check" or "good".
  std::string Try(const std::string& text) {
    const absl::StatusOr<v1::JobSpec> spec = ParseJobFile(text, "job.file");
    if (!spec.ok()) {
      EXPECT_TRUE(absl::StartsWith(spec.status().message(), "job.file:")) << spec.status();
      return "parser";
    }
    v1::PlanJobRequest plan;
    *plan.mutable_spec() = *spec;
    const auto report = coordinator_.Plan(plan);
    v1::SubmitJobRequest submit;
    *submit.mutable_spec() = *spec;
    const auto job = coordinator_.Submit(submit);
    if (job.ok()) {
      v1::CancelJobRequest cancel;
      cancel.set_job(absl::StrCat(job->id()));
      EXPECT_TRUE(coordinator_.Cancel(cancel).ok());
      return "good";
    }
    EXPECT_FALSE(job.status().message().empty());
    if (job.status().code() == absl::StatusCode::kInvalidArgument && !report.ok()) {
      EXPECT_TRUE(NamesFields(job.status().message())) << job.status();
    }
    return "check";
  }

  FakeClock clock_;
  Coordinator coordinator_;
  std::vector<std::string> texts_;  // each job as text and as JSON
};

TEST_F(MalformedJobsTest, EndWithAJobOrAMessageThatNamesFileOrField) {
  constexpr int kFiles = 400;
  Random random(19450716);
  int parser = 0;
  int check = 0;
  for (int i = 0; i < kFiles; ++i) {
    std::string text = texts_[static_cast<size_t>(i) % texts_.size()];
    const size_t faults = 1 + Below(&random, 3);
    for (size_t m = 0; m < faults; ++m) Mutate(&random, &text);
    SCOPED_TRACE(absl::StrCat("file ", i, ":\n", text.substr(0, 4000)));
    const absl::Time start = absl::Now();
    const std::string end = Try(text);
    EXPECT_LT(absl::Now() - start, kLongest);
    parser += end == "parser" ? 1 : 0;
    check += end == "check" ? 1 : 0;
  }
  // The faults reach both.
  EXPECT_GT(parser, kFiles / 4);
  EXPECT_GT(check, kFiles / 20);
}

}  // namespace
}  // namespace sangam
